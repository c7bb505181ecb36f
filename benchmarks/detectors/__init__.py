"""Trials of detectors on made-up fleets of known truth, and on series that people labelled."""
