"""Tells people: what is said to whom, and that it arrives."""
