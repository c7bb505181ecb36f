"""Compares detectors of regressions on simulated fleets and on series that people labelled."""
