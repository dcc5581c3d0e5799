"""Architectures, the catalog of names, weights in and out."""
