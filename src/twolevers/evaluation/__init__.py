"""Metrics on what a model answers."""
