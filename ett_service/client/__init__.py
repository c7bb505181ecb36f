"""What runs beside the trainer: it records events, keeps them on disk and sends them."""

__version__ = "0.1.0"
