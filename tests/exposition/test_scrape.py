"""Few cohorts, however many there are."""

from collections.abc import Callable

from ett_service.exposition.label import OTHER
from ett_service.exposition.scrape import MOST_CLUSTERS, MOST_COHORTS, reported_phase
from tests.engines import ON_ONE_ENGINE
from tests.exposition.conftest import Page, Tell
from tests.stories import told


@ON_ONE_ENGINE
def test_the_cohorts_with_the_most_accelerator_time_are_shown_and_the_rest_are_other(
    tell: Tell, scrape: Callable[[], Page]
) -> None:
    total = MOST_COHORTS + 7
    tell(
        [
            event
            for number in range(total)
            for event in (
                told("job", 0, f"j{number}", model=f"m{number:02}", cluster=f"c{number:02}"),
                told("attempt_started", 0, f"j{number}", gpus=number + 1),
                told("attempt_ended", 1, f"j{number}", outcome="completed"),
            )
        ]
    )
    samples = scrape()["ett_phase_seconds_total"]
    assert sum(samples.values()) == total * 60
    cohorts = {dict(labels)["cohort"] for labels in samples}
    assert cohorts == {f"m{number:02}" for number in range(7, total)} | {OTHER}
    clusters = {dict(labels)["cluster"] for labels in samples}
    assert clusters == {f"c{number:02}" for number in range(total)[-MOST_CLUSTERS:]} | {OTHER}


def test_who_a_second_belonged_to_as_it_was_reported() -> None:
    assert reported_phase("train_loop", "repeated_training") == "train_loop"
    assert reported_phase("", "unattributed") == "unattributed"
    assert reported_phase("", "restart_wait") == "restart_wait"
    assert reported_phase("queued", "restart_wait") == "restart_wait"
