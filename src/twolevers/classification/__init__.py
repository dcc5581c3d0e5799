"""Texts into classes: a linear head on the same GPT-2, as chapter 6 builds it."""
