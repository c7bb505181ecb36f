"""Alerts on what the fleet does, beside its budget."""

from collections.abc import Iterator

from ett_service.rules.recording import FAILURES, INFRA, OPEN, merged
from ett_service.rules.rule import Alert, Scale

_COHORT = "/d/ett-cohort?var-cluster={{ $labels.cluster | urlquery }}&var-cohort="
_COHORT += "{{ $labels.cohort | urlquery }}"
_FAILURES = "/d/ett-failures?var-cluster={{ $labels.cluster | urlquery }}"


def alerts(scale: Scale) -> Iterator[Alert]:
    """Yield them."""
    yield Alert(
        "EttPhaseStuck",
        _stuck(scale),
        severity="ticket",
        summary="An attempt of {{ $labels.cohort }} is stuck in {{ $labels.phase }}",
        description=(
            "It has been in {{ $labels.phase }} on {{ $labels.cluster }} for "
            "{{ $value | humanizeDuration }}: over 10 min and three times as long as 99% of "
            "attempts, or over 30 min in a save or a stall."
        ),
        dashboard=_COHORT,
        wait="5m",
    )
    yield Alert(
        "EttFailureRateHigh",
        _failing(scale),
        severity="ticket",
        summary="{{ $labels.cluster }} has many failures by {{ $labels.cause }}",
        description=(
            "{{ $value | humanize }} attempts failed by {{ $labels.cause }} in a day, over three "
            "times as many as on a day of the week before."
        ),
        dashboard=_FAILURES,
        wait="1h",
    )
    yield Alert(
        "EttCohortSilent",
        _silent(),
        severity="ticket",
        summary="Nothing is heard of {{ $labels.cohort }} on {{ $labels.cluster }}",
        description=(
            "Its attempts run, and none gave a sign for {{ $value | humanizeDuration }}, while "
            "other attempts do. Silent ones are soon taken for lost."
        ),
        dashboard=_COHORT,
        wait="5m",
        hold="30m",
    )


def _stuck(scale: Scale) -> str:
    # A loop may be open for weeks; what hangs inside it is `stalled`.
    p99 = merged("ett_phase_p99_seconds")
    return "\n".join(
        (
            f'    {OPEN}{{phase!="train_loop"}}',
            "  > ignoring (cohort) group_left ()",
            f"    clamp_min(3 * {p99}, {scale.seconds('10m')})",
            "or",
            f'  {OPEN}{{phase=~"checkpoint_blocking|stalled"}} > {scale.seconds("30m")}',
        )
    )


def _failing(scale: Scale) -> str:
    # Without a week to compare with there is nothing to be three times as high as; and increases
    # are rounded, because Prometheus extrapolates them to the ends of the window.
    day, week = scale.text("1d"), scale.text("7d")
    counter = f"{FAILURES}{{{INFRA}}}"
    recent = "cluster_cause:ett_infra_failures:increase1d"
    return "\n".join(
        (
            f"  round({recent}) > 5",
            "and",
            f"    {recent}",
            "  >",
            f"    3 * sum without (origin) (increase({counter}[{week}] offset {day})) / 7",
            "and",
            f"  sum without (origin) (present_over_time({counter}[{day}] offset {week}))",
        )
    )


def _silent() -> str:
    running, silent = merged("ett_attempts_running"), merged("ett_attempts_silent")
    # At least one attempt elsewhere is heard: else it is EttIngestStalled.
    return "\n".join(
        (
            f"  time() - {merged('ett_cohort_last_event_timestamp_seconds')}",
            "and",
            f"  ({silent} == {running}) > 0",
            "and ignoring (cluster, cohort)",
            f"  sum without (cluster, cohort) ({running})",
            f"    > sum without (cluster, cohort) ({silent})",
        )
    )
