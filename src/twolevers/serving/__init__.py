"""Talking to a model: the engine, the HTTP endpoint, the terminal, the page."""
