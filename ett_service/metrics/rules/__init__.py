"""Recording and alert rules for Prometheus, computed for an objective."""
