"""What ``ett detect`` says, as tables: what alerts, what does not, and what cannot be seen."""

from collections.abc import Iterable, Sequence

from ett_service.charts.units import cohort, cost, duration, factor, level_change, percent, subject
from ett_service.cli.output import minute, write_line, write_table
from ett_service.cli.regressions.detect_answer import Told

_VERDICTS = (
    ("regression", "Regressions"),
    ("improvement", "Improvements, which alert nobody"),
    ("incident", "Incidents: bad days, which alert nobody"),
    ("relabelling", "Relabelling: time moved between phases, and their sum is what it was"),
    ("mix", "Job mix: other jobs ran, and no cohort changed"),
)
_LAPSED = "inactive"
_WHEN = ("onset", "pending", "firing", "resolved")


def write(answer: Told, *, power: bool) -> None:
    """Write one project's answer."""
    runs = "one run" if answer["runs"] == 1 else f"{answer['runs']} runs, a day apart"
    write_line(f"Project {answer['project']}, as of {minute(answer['at'])} UTC: {runs}.")
    stands = [one for one in answer["found"] if one["state"] != _LAPSED]
    for verdict, title in _VERDICTS:
        _write_found(title, [one for one in stands if one["verdict"] == verdict])
    if not stands:
        write_line()
        write_line("Nothing is found.")
    if lapsed := len(answer["found"]) - len(stands):
        write_line()
        write_line(f"{lapsed} more went away before they were found often enough to fire.")
    _write_open(answer["open_phases"])
    _write_power(answer, listed=power)


def _write_found(title: str, found: Sequence[Told]) -> None:
    if not found:
        return
    write_line()
    write_line(title)
    write_table(
        ("state", "what", "of", "factor", "95% interval", "median", "n", *_WHEN, "severity"),
        [
            (
                one["state"],
                subject(one),
                cohort(one["cohort"]),
                factor(one["ratio"]),
                _interval(one["interval"]),
                level_change(one),
                f"{one['before']['n']} -> {one['after']['n']}",
                *(_day(one[f"{when}_at"]) for when in _WHEN),
                one["severity"],
            )
            for one in found
        ],
        right=("factor", "n"),
    )
    for one in found:
        write_line(f"  {subject(one)} of {cohort(one['cohort'])}: {'; '.join(_because(one))}")


def _interval(bounds: Told | None) -> str:
    return "-" if bounds is None else f"{bounds['low']:.2f} to {bounds['high']:.2f}"


def _because(one: Told) -> Iterable[str]:
    yield cost(one["impact"])
    found = one["attribution"]
    for suspect in found["suspects"][:1]:
        part = percent(suspect["explains"])
        yield f"associated with {suspect['dimension']} {suspect['value']}, which explains {part}"
    for marker in found["markers"][:1]:
        yield f"near the {marker['kind']} {marker['title']!r} of {_day(marker['at'])}"
    if examples := found["examples"][:2]:
        yield "as in " + " and ".join(
            f"{each['job']} attempt {each['number']}" for each in examples
        )


def _write_open(phases: Sequence[Told]) -> None:
    if not phases:
        return
    write_line()
    write_line("Open phases, the oldest of each cohort: what hangs is in no duration above")
    write_table(
        ("phase", "of", "open for", "99% take", "job", "attempt", "stuck"),
        [
            (
                one["phase"],
                cohort(one["cohort"]),
                duration(one["seconds"]),
                duration(one["p99_seconds"]),
                one["job"],
                one["number"],
                "yes" if one["stuck"] else "",
            )
            for one in phases
        ],
        right=("open for", "99% take", "attempt"),
    )


def _write_power(answer: Told, *, listed: bool) -> None:
    power = answer["power"]
    blind = sum(one["smallest"] is None for one in power)
    write_line()
    write_line(f"{answer['series']} series were looked at, each a subject in a cohort.")
    if blind:
        write_line(f"In {blind} series no change of any size can be seen, for want of values.")
    if not listed:
        write_line("How small a change can be seen: --power")
        return
    write_table(
        ("what", "of", "before", "recent", "can be seen"),
        [
            (subject(one), cohort(one["cohort"]), one["baseline"], one["recent"], _seen(one))
            for one in power
        ],
        right=("before", "recent"),
    )


def _seen(one: Told) -> str:
    if one["smallest"] is None:
        return f"nothing can be seen here, n={one['recent']}"
    return f"nothing under {one['smallest']:.1f}x can be seen here, n={one['recent']}"


def _day(instant: str | None) -> str:
    return "-" if instant is None else minute(instant)[:16]
