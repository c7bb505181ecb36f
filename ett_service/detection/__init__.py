"""The detector: lasting changes of durations, failure rates and ETT%, and their attribution."""
