"""Finds lasting changes of durations, failure rates and ETT%, and what they are associated with."""
