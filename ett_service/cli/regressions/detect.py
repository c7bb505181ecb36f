"""``ett detect``: what the search for regressions would have found on any day, replayed offline."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from ett_service.app import detection_plan
from ett_service.charts.units import cohort, cost, duration, factor, level_change, percent, subject
from ett_service.cli.arguments import INSTANT, config, instant_us
from ett_service.cli.operations.config import opened_for_reading
from ett_service.cli.output import NONE, minute, write_line, write_prose
from ett_service.cli.regressions.detect_answer import Members, answer_of
from ett_service.cli.tables import (
    Answer,
    identifier,
    number,
    outcome,
    spare,
    styled,
    text,
    write_table,
)
from ett_service.cli.verb import Failure, Verb, now_us
from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.state import StateRules
from ett_service.detection.observed.open_phases import open_phases
from ett_service.detection.run import memory_of, retrace
from ett_service.detection.sample import Plan
from ett_service.settings import Settings
from ett_service.storage.jobs.listing import projects
from ett_service.storage.regressions import findings, tuning

_VERDICTS = (
    ("regression", "Regressions"),
    ("small", "Small regressions, which cost less than the floor and do not alert"),
    ("improvement", "Improvements, which do not alert"),
    ("incident", "Incidents: bad days, which do not alert"),
    ("relabelling", "Relabelling: time moved between phases, and their sum did not change"),
    ("mix", "Job mix: other jobs ran, and no cohort changed"),
)
_LAPSED = "inactive"
_STEPS = ("onset", "pending", "firing", "resolved")


def _interval(bounds: Answer | None) -> str:
    return NONE if bounds is None else f"{bounds['low']:.2f} to {bounds['high']:.2f}"


def _sizes(finding: Answer) -> str:
    return f"{finding['before']['n']} -> {finding['after']['n']}"


def _minute(instant: str | None) -> str:
    return NONE if instant is None else minute(instant)[:16]


def _detectable(row: Answer) -> str:
    least = "no change" if row["smallest"] is None else f"changes from {row['smallest']:.1f}x"
    return f"{least}, n={row['recent']}"


_FINDINGS = (
    styled(text("state"), outcome),
    text("what", subject),
    text("of", "cohort", cohort),
    number("factor", "ratio", factor),
    text("95% interval", "interval", _interval),
    spare(identifier("median", level_change)),
    spare(number("n", _sizes)),
    *(spare(text(when, f"{when}_at", _minute)) for when in _STEPS),
    styled(text("severity"), outcome),
)
_OPEN_PHASES = (
    text("phase"),
    text("of", "cohort", cohort),
    number("open for", "seconds", duration),
    number("99% take", "p99_seconds", duration),
    identifier("job"),
    number("attempt", "number"),
    text("stuck", "stuck", lambda stuck: "yes" if stuck else ""),
)
_POWER = (
    text("what", subject),
    text("of", "cohort", cohort),
    number("before", "baseline"),
    number("recent"),
    text("detectable", _detectable),
)


def write_project(answer: Answer, *, with_power: bool) -> None:
    """Write the answer about one project."""
    runs = "one run" if answer["runs"] == 1 else f"{answer['runs']} runs, a day apart"
    write_prose(f"Project {answer['project']}, as of {minute(answer['at'])} UTC: {runs}.")
    current = [finding for finding in answer["found"] if finding["state"] != _LAPSED]
    for verdict, title in _VERDICTS:
        _write_findings(title, [finding for finding in current if finding["verdict"] == verdict])
    if not current:
        write_line()
        write_prose("No findings.")
    if lapsed := len(answer["found"]) - len(current):
        write_line()
        write_prose(f"{lapsed} more lapsed before enough runs in a row found them to fire.")
    if answer["open_phases"]:
        write_line()
        write_prose("Open phases, the oldest of each cohort; no duration above includes them")
        write_table(_OPEN_PHASES, answer["open_phases"])
    _write_power(answer, listed=with_power)


def _write_findings(title: str, findings: Sequence[Answer]) -> None:
    if not findings:
        return
    write_line()
    write_prose(title)
    write_table(_FINDINGS, findings)
    for finding in findings:
        reasons = "; ".join(_reasons(finding))
        write_prose(f"  {subject(finding)} of {cohort(finding['cohort'])}: {reasons}")


def _reasons(finding: Answer) -> Iterable[str]:
    yield cost(finding["impact"])
    attribution = finding["attribution"]
    for suspect in attribution["suspects"][:1]:
        part = percent(suspect["explains"])
        yield f"associated with {suspect['dimension']} {suspect['value']}, which explains {part}"
    for marker in attribution["markers"][:1]:
        yield f"near the {marker['kind']} {marker['title']!r} of {_minute(marker['at'])}"
    if examples := attribution["examples"][:2]:
        yield "as in " + " and ".join(
            f"{example['job']} attempt {example['number']}" for example in examples
        )


def _write_power(answer: Answer, *, listed: bool) -> None:
    power = answer["power"]
    blind = sum(row["smallest"] is None for row in power)
    write_line()
    write_prose(f"The search covered {answer['series']} series, each a subject in a cohort.")
    if blind:
        write_prose(f"{blind} series have too few values to detect any change.")
    if listed:
        write_table(_POWER, power)
    else:
        write_prose("--power lists how small a change can be detected.")


MOST_RUNS = 400
"""So many days are replayed at most."""


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--at",
        type=instant_us,
        metavar="WHEN",
        help=f"{INSTANT}; the run sees what was over by then (default: the last run that was due)",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        type=instant_us,
        metavar="WHEN",
        help="run once a day from then on; each run continues from the last",
    )
    parser.add_argument("--project", help="one project (default: each of them)")
    parser.add_argument(
        "--power", action="store_true", help="list how small a change can be detected"
    )


def _detect(args: Namespace) -> Members:
    """Return what would have been pending, firing and resolved.

    Raises:
        Failure: where there is no such project, or too many days.
    """
    with opened_for_reading(args) as (settings, store):
        runs_at = _runs(args, settings)
        plan, rules = detection_plan(settings), StateRules(runs=settings.detection.runs)
        with store.reading() as conn:
            chosen = _chosen(projects(conn), args.project)
            answers = [
                _replayed(
                    conn, name, project_id, runs_at, _tuned(conn, project_id, plan, settings), rules
                )
                for name, project_id in chosen.items()
            ]
    return {"projects": answers}


def _tuned(conn: Connection, project_id: int, plan: Plan, settings: Settings) -> Plan:
    if not settings.detection.tune:
        return plan
    return plan.tuned(tuning.factors(conn, project_id, now_us()))


def _chosen(projects: Mapping[str, int], name: str | None) -> Mapping[str, int]:
    if name is None:
        return projects
    if name not in projects:
        raise Failure(f"There is no project {name!r}.", f"There are: {', '.join(projects)}.")
    return {name: projects[name]}


def _write(answer: Members, args: Namespace) -> None:
    for project in answer["projects"]:
        write_project(project, with_power=args.power)


def _runs(args: Namespace, settings: Settings) -> list[int]:
    """Return the instants of the runs in ascending order, one a day up to the last."""
    every_us = round(settings.detection.every_seconds * SECOND_US)
    last_us = args.at if args.at is not None else now_us() // every_us * every_us
    first_us = last_us if args.begin is None else args.begin
    count = (last_us - first_us) // DAY_US + 1
    if not 1 <= count <= MOST_RUNS:
        raise Failure(
            f"From --from to --at there are {max(count, 0)} runs.",
            f"--from lies before --at, by {MOST_RUNS} days at most.",
        )
    return [last_us - day * DAY_US for day in reversed(range(count))]


def _replayed(
    conn: Connection,
    name: str,
    project_id: int,
    runs_at: Sequence[int],
    plan: Plan,
    rules: StateRules,
) -> Members:
    before = findings.states_before(conn, project_id, runs_at[-1])
    memory = memory_of(before, findings.accepted(conn, project_id))
    replayed, observed = retrace(conn, project_id, runs_at, plan, rules, memory)
    still_open = open_phases(conn, project_id, observed, runs_at[-1])
    return answer_of(name, runs_at, replayed, still_open)


VERB = Verb(
    description="Run the detector over the database that the settings name, as it would have run "
    "then. It writes nothing, and a server may run meanwhile.",
    epilog="Examples: `ett detect --at 2026-11-19`, `ett detect --from 30d --power`. "
    "docs/howto/replay-detection.md explains more.",
    options=(_options, config),
    run=_detect,
    write=_write,
)
