"""Few words are shown, and which ones only changes for a reason."""

from functools import partial

from ett_service.storage.engine.store import Store
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics.labels import CLUSTER, COHORT, LabelLimits, ShownLabels


def learn(store: Store, cohorts: str, most: int = 2) -> ShownLabels:
    return store.write(
        partial(counter_labels.learn, clusters=["a"], cohorts=cohorts, limits=LabelLimits(1, most))
    )


def choose(store: Store, most: int = 2, **weights: float) -> str:
    store.write(partial(counter_labels.choose, kind=COHORT, weights=weights, most=most))
    with store.reading() as conn:
        return "".join(sorted(counter_labels.read(conn).cohorts))


def test_words_are_shown_while_there_is_room(store: Store) -> None:
    assert learn(store, "b").cohorts == {"b"}
    shown = learn(store, "dca")
    assert shown.cohorts == {"a", "b"}
    assert shown.of("a", "b") == ("a", "b")
    assert shown.of("elsewhere", "c") == ("other", "other")


def test_what_is_not_shown_is_counted(store: Store) -> None:
    learn(store, "abcd")
    with store.reading() as conn:
        assert counter_labels.folded(conn) == {CLUSTER: 0, COHORT: 2}


def test_the_heaviest_come_to_be_shown(store: Store) -> None:
    learn(store, "abcd")
    assert choose(store, a=1, b=2, c=3, d=4) == "cd"


def test_a_word_that_is_shown_gives_way_only_to_one_much_heavier(store: Store) -> None:
    learn(store, "abc")
    assert choose(store, a=10, b=20, c=11.9) == "ab"
    assert choose(store, a=10, b=20, c=12.1) == "bc"


def test_a_smaller_cap_shows_fewer_and_a_larger_one_more(store: Store) -> None:
    learn(store, "abc")
    assert choose(store, most=1, a=1, b=2, c=1) == "b"
    assert choose(store, most=3, a=1, b=2, c=1) == "abc"
