"""Simulates fleets of known truth from a seed and a scenario."""
