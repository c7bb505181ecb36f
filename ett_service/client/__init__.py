"""What runs beside the trainer: it records events, keeps them on disk and sends them."""
