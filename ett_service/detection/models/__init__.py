"""One module for each kind of value: how a sample's columns become series of days."""
