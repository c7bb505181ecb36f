"""Names of types."""

from benchmarks.structure import ambiguous_types


def test_a_type_name_means_one_thing_in_a_layer() -> None:
    assert ambiguous_types() == []
