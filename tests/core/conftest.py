"""How many cases the property tests draw."""

from hypothesis import settings

settings.register_profile("test", max_examples=100, deadline=None, derandomize=True, database=None)
settings.register_profile("laws", max_examples=10_000, deadline=None, database=None)
settings.load_profile("test")
