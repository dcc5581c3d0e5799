"""Pictures and the summary that ends a run."""
