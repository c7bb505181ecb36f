from ett_service.exposition.own import OwnMetrics


def test_every_source_is_shown_from_0_on_and_counts_what_it_brought() -> None:
    own = OwnMetrics()
    own.count_events(3, history=False)
    own.count_events(4, history=True)
    own.count_events(1, history=False)
    (family,) = own.collect()
    counts = {sample.labels["source"]: sample.value for sample in family.samples}
    assert counts == {"events": 4, "traces": 0, "import": 4}
