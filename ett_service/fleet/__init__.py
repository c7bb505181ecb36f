"""Questions about the fleet, answered from the rollups and, where those do not tell, the ledgers.

Nothing here reads a clock, a setting or a request: they are arguments.
"""
