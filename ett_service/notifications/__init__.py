"""Notifications: which receivers get which message, and how it is delivered."""
