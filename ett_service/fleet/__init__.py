"""Questions about the fleet, answered from the rollups or, where those do not suffice, from ledgers.

Nothing here reads a clock, a setting or a request: they are arguments.
"""
