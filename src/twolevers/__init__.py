"""Fine-tune GPT-2 on instructions; see what the choice of model and of device costs."""

__version__ = "0.1.0"
