"""Questions about the fleet, answered from rollups, or from ledgers where rollups do not suffice.

Nothing here reads a clock, a setting or a request: they are arguments.
"""
