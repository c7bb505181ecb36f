"""Compares what the failure rules say of real error messages with what people found out."""
