"""What the service measures, as pure functions on the standard library.

Events become spans, spans become a ledger, a ledger becomes totals, and a ratio is taken last.
Nothing here reads a clock, a file, the environment or a global.
"""
