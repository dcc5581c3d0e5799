"""Key-value cache, sampling, batching."""
