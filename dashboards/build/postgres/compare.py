"""The dashboard that compares two sets of runs."""

from collections.abc import Iterator

from dashboards.build.kit import (
    Dashboard,
    Field,
    Link,
    Paint,
    Row,
    Source,
    Stack,
    Variable,
    to_page,
)
from dashboards.build.postgres.shared import (
    DATASOURCE,
    ETT_URL,
    MARKERS,
    PROJECT,
    bars,
    number,
    of_values,
    ratio,
    seconds,
    table,
)
from dashboards.build.sql import compare

_SET = (
    "A set is the attempts that started in the range and match its variables; time "
    "between attempts counts with the earlier attempt."
)


def _choices() -> Iterator[Variable]:
    for name in compare.SETS:
        for dimension in compare.DIMENSIONS:
            words = dimension.replace("_", " ")
            yield of_values(
                f"{name}_{dimension}",
                f"{name.upper()}: {words}",
                f"What set {name.upper()} has as its {words}.",
                compare.values_of(dimension),
            )


_SIDE_BY_SIDE = Row(
    "A and B",
    (
        table(
            "The two sets",
            f"{_SET} Failures are rated by accelerators' time in all.",
            compare.SUMMARY,
            height=5,
            fields=(
                number("jobs", "jobs", 0),
                number("attempts", "attempts", 0),
                number("accelerator_hours", "accelerator hours"),
                ratio("ett_ratio", "ETT"),
                seconds("time_to_loop_p50", "time to loop, p50"),
                seconds("time_to_loop_p90", "time to loop, p90"),
                number("failures", "failures", 0),
                number("failures_per_1000_hours", "failures / 1,000 h", 3),
                number("unsaved_gpu_hours", "unsaved GPU-hours"),
            ),
        ),
        bars(
            "Categories side by side",
            f"What the accelerators' time of each set was spent on. {_SET}",
            compare.SHARES,
            "set",
            unit="percentunit",
            stack=Stack.PERCENT,
            paint=Paint.SERIES,
            horizontal=True,
            width=14,
            height=11,
        ),
        table(
            "What differs most",
            "B's share of a category minus A's; the differences add up to 0.",
            compare.DIFFERENCES,
            unit="percentunit",
            paint=Paint.VALUES,
            width=10,
            height=11,
            fields=(
                Field(name="category", unit="none", painted=True),
                ratio("a", "A"),
                ratio("b", "B"),
                ratio("difference", "B minus A"),
            ),
        ),
    ),
)

_DISTRIBUTIONS = Row(
    "Starts and failures",
    (
        bars(
            "Time to the training loop",
            "Share of each set's attempts by the time from their start to their "
            "first training loop. Attempts that did not reach one are left out.",
            compare.TIME_TO_LOOP,
            "time_to_loop",
            unit="percentunit",
            fields=(ratio("a", "A"), ratio("b", "B")),
        ),
        bars(
            "Failures by cause",
            "Failures of each set per 1,000 accelerator-hours.",
            compare.FAILURES_BY_CAUSE,
            "cause",
            unit="short",
            decimals=3,
            fields=(number("a", "A", 3), number("b", "B", 3)),
        ),
    ),
)

COMPARE = Dashboard(
    uid="ett-sql-compare",
    title="What differs between these two sets of runs?",
    description="Choose A and B by team, model, cluster, hardware, code version or job. A "
    "difference does not say why.",
    source=Source.POSTGRES,
    variables=(DATASOURCE, ETT_URL, PROJECT, *_choices()),
    annotations=(MARKERS,),
    links=(Link("Page that compares two sets", to_page("/compare")),),
    rows=(_SIDE_BY_SIDE, _DISTRIBUTIONS),
    since="now-28d",
)
