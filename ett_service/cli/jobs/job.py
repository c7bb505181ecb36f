"""``ett job``: where the time of a job went, and what broke."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from ett_service.charts.units import amount, count, duration, e2e, ratio_of_e2e
from ett_service.cli.arguments import named, project, server
from ett_service.cli.jobs import cohort
from ett_service.cli.output import (
    NONE,
    author,
    minute,
    or_dash,
    percent,
    write_line,
    write_prose,
)
from ett_service.cli.remote import ask, of_project, place
from ett_service.cli.tables import (
    Answer,
    Column,
    cells,
    identifier,
    number,
    outcome,
    prose,
    spare,
    styled,
    text,
    write_pairs,
    write_table,
)
from ett_service.cli.verb import Verb
from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.report.inputs import share
from ett_service.report.stages import own_seconds


def _cause(attempt: Answer) -> str:
    cause = f"{attempt['origin']}: {attempt['cause']}" if attempt["origin"] else "-"
    verdict = attempt["verdict"]
    if verdict is None:
        return cause
    return f"{cause} (verdict; the rules: {verdict['rules_origin']}: {verdict['rules_cause']})"


def _evidence(attempt: Answer) -> str:
    if not attempt["evidence"]:
        return attempt["reason"] or "-"
    return f"{attempt['evidence']['rule']}: {attempt['evidence']['text']}"


def _position(attempt: Answer) -> str:
    return f"{attempt['launch'] or '-'}/{attempt['attempt']}/{attempt['cycle']}"


def _lasted(attempt: Answer) -> str:
    return duration(sum(attempt["categories"].values()))


def _from_to(recovery: Answer) -> str:
    return f"{recovery['interrupted']} -> {or_dash(recovery['resumed'])}"


def _spent(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts.items())


def _short_time(seconds: float | None) -> str:
    return NONE if seconds is None else f"{seconds:.4g} s"


def _hooks_in(attempt: Answer, state: str) -> int:
    return list(attempt["hooks"].values()).count(state)


_HEADLINE = (
    text("ETT%", partial(ratio_of_e2e, member="ett_ratio"), percent),
    text("E2E", e2e, duration),
    text("time to start", "time_to_start_seconds", duration),
    text("failures"),
    text("of infra or preemption", "infra_failures"),
    text("wasted", partial(ratio_of_e2e, member="wasted_ratio"), percent),
    text("unsaved training", "unsaved_training_seconds", duration),
)
_LEDGER = (
    text("category", itemgetter(0)),
    number("length", itemgetter(1), duration),
    number("share", itemgetter(2), percent),
)
_WAITS = (
    text("wait", itemgetter(0)),
    text("whose", itemgetter(1)),
    number("length", itemgetter(2), duration),
)
_SPEED = (
    number("at reference speed", "effective_at_reference_seconds", duration),
    number("of E2E", "at_reference_ratio", percent),
    number("slowed", "slowed_seconds", duration),
    number("not measured", "speed_unmeasured_seconds", duration),
    number("reference step", "reference_step_seconds", _short_time),
)
_DATA_WAIT = (
    number("waited for data", "seconds", duration),
    number("of loop time", "ratio", percent),
    number("attempts that report it", "attempts"),
)
_RATES = (
    text("while training", itemgetter(0)),
    number("total", itemgetter(1), count),
    number("per second", itemgetter(2), amount),
    number("per accelerator", itemgetter(3), amount),
)
_RUNS = (
    number("run", "number"),
    text("began (UTC)", "started_at", minute),
    styled(text("state"), outcome),
    number("ETT%", partial(ratio_of_e2e, member="ett_ratio"), percent),
    number("E2E", e2e, duration),
    number("time to start", "time_to_start_seconds", duration),
    number("failures"),
    number("attempts"),
    number("idle before", "idle_before_seconds", duration),
)
_ATTEMPTS = (
    number("attempt", "number"),
    spare(identifier("launch/attempt/cycle", _position)),
    text("began (UTC)", "started_at", minute),
    number("lasted", _lasted),
    spare(number("gpus")),
    styled(text("outcome"), outcome),
    text("cause", _cause),
    prose("evidence", _evidence),
)
_RECOVERIES = (
    identifier("recovery", _from_to),
    number("took", "seconds", duration),
    text("spent on", "parts", _spent),
    spare(text("whose wait", "owners", _spent)),
    number("stalled before", "stalled_seconds", duration),
    number("repeated after", "repeated_seconds", duration),
)
_EXCLUSIONS = (
    text("excluded from (UTC)", "from", minute),
    text("to (UTC)", "to", minute),
    text("by", partial(author, member="made_by")),
    prose("why"),
)
_GAPS = (
    text("gap", "kind"),
    text("attempt", "number", or_dash),
    text("from (UTC)", "started_at", minute),
    text("to (UTC)", "ended_at", minute),
    prose("what was inferred", "detail"),
    spare(identifier("event", "event_id", or_dash)),
)


_MEASURES = {"step_seconds": "step time", "data_wait_seconds": "waits for data"}
_SLOWEST = (
    number("attempt", "number"),
    text("slowest by", "measure", _MEASURES.__getitem__),
    number("rank"),
    text("host", "host", or_dash),
    number("a step", "seconds", _short_time),
    number("median of ranks", "median_seconds", _short_time),
    number("ranks"),
    number("windows"),
)
_RECORDING = (
    number("attempt", "number"),
    number("recording took", "telemetry_seconds", _short_time),
    number("hooks in place", partial(_hooks_in, state="ok")),
    number("waiting", partial(_hooks_in, state="waiting")),
    number("missing", partial(_hooks_in, state="missing")),
    number("failed", partial(_hooks_in, state="error")),
)


_STAGES = (
    text("phase", itemgetter(0)),
    text("stage", itemgetter(1)),
    number("own", itemgetter(2), duration),
    number("share of phase", itemgetter(3), percent),
)

UNNAMED = "(no stage)"
"""What is left of a phase of which stages are reported."""

StageRow = tuple[str, str, float, float | None]


def stage_rows(stages: Sequence[Answer]) -> list[StageRow]:
    """Sum the stages of all attempts, and what of their phases has no name.

    A row is a phase, a stage, its own seconds, and their share of the phase.
    """
    parts: dict[str, dict[str, float]] = {}
    for each, own in zip(stages, own_seconds(stages), strict=True):
        of_phase, name = parts.setdefault(each["phase"], {}), each["stage"] or UNNAMED
        of_phase[name] = of_phase.get(name, 0.0) + own
    return [row for phase in parts for row in _parts_of(phase, parts[phase])]


def _parts_of(phase: str, parts: Mapping[str, float]) -> Iterator[StageRow]:
    """Yield the parts of a phase that has stages, the longest first and last what has no name."""
    whole = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: (part[0] == UNNAMED, -part[1]))
    if ordered[0][0] != UNNAMED:
        for stage, seconds in ordered:
            yield phase, stage, seconds, share(seconds, whole)


def _job_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--compare", action="store_true", help="show the job beside its cohort, the jobs like it"
    )
    parser.add_argument(
        "--by",
        type=_dimensions,
        default=("model", "kind"),
        metavar="DIMENSIONS",
        help="what the cohort shares with the job (default model,kind)",
    )


def _dimensions(text: str) -> Sequence[str]:
    names = text.split(",")
    if not set(names) <= set(JOB_DIMENSIONS):
        raise ArgumentTypeError(f"{text!r} is not of {', '.join(JOB_DIMENSIONS)}, with commas")
    return names


def _job(args: Namespace) -> Any:
    return cohort.compare(args) if args.compare else _one_job(args)


def _one_job(args: Namespace) -> Any:
    return ask(args, place("/v1/jobs/{}", args.job), of_project(args))


def _write_job(answer: Answer, args: Namespace) -> None:
    if args.compare:
        cohort.write(answer)
    else:
        _write_one_job(answer, args)


def _write_one_job(job: Answer, args: Namespace) -> None:
    so_far = ", numbers so far" if job["provisional"] else ""
    write_prose(f"{job['job']}: {job['state']}{so_far}")
    write_table(_HEADLINE, [job])
    if job["run_count"] > 1:
        _write_section(_RUNS, job["runs"])
        write_prose(f"Between runs: {duration(job['between_runs_seconds'])}, in no E2E.")
    _write_ledger(job)
    _write_waits(job)
    if job["effective_at_reference_seconds"] is not None:
        _write_section(_SPEED, [job])
    if job["data_wait"] is not None:
        attempts = sum(each["data_wait"] is not None for each in job["attempts"])
        _write_section(_DATA_WAIT, [{**job["data_wait"], "attempts": attempts}])
    _write_productivity(job["productivity"])
    _write_section(_ATTEMPTS, job["attempts"])
    reporting = [each for each in job["attempts"] if each["telemetry_seconds"] or each["hooks"]]
    _write_section(_RECORDING, reporting)
    if job["pruned_at"]:
        write_line()
        write_prose(f"Events and segments were pruned on {minute(job['pruned_at'])}: no stages.")
    else:
        _write_timeline(args)
    _write_section(_RECOVERIES, job["recoveries"])
    _write_section(_EXCLUSIONS, job["exclusions"])
    _write_quality(job["quality"])


def _write_timeline(args: Namespace) -> None:
    answer = ask(args, place("/v1/jobs/{}/stages", args.job), of_project(args))
    if rows := stage_rows(answer["stages"]):
        write_line()
        write_table(_STAGES, rows)
        write_prose(f"Spans add up to {percent(answer['span_ratio'])} of E2E, the ledger to 100%.")
    answer = ask(args, place("/v1/jobs/{}/ranks", args.job), of_project(args))
    _write_section(_SLOWEST, answer["slowest"])


def _write_section(columns: Sequence[Column], rows: Sequence[Answer]) -> None:
    if rows:
        write_line()
        write_table(columns, rows)


def _write_ledger(job: Answer) -> None:
    write_line()
    write_table(
        _LEDGER,
        [
            (name, seconds, share(seconds, job["e2e_seconds"]))
            for name, seconds in job["categories"].items()
            if seconds
        ],
        last=cells(_LEDGER, ("E2E", job["e2e_seconds"], 1.0 if job["e2e_seconds"] else None)),
    )


def _write_waits(job: Answer) -> None:
    rows = [
        (part, owner, seconds)
        for part, owners in job["waits"].items()
        for owner, seconds in sorted(owners.items(), key=itemgetter(1), reverse=True)
    ]
    if rows:
        write_line()
        write_table(_WAITS, rows)


def _write_productivity(productivity: Answer) -> None:
    rates = [
        (
            unit,
            productivity[unit],
            productivity[f"{unit}_per_second"],
            productivity[f"{unit}_per_second_per_accelerator"],
        )
        for unit in ("tokens", "samples")
        if productivity[unit]
    ]
    if not rates and productivity["mfu"] is None:
        return
    write_line()
    write_table(_RATES, rates)
    write_prose(
        f"MFU {percent(productivity['mfu'])}; ETT% x MFU {percent(productivity['useful_ratio'])}"
    )


def _write_quality(quality: Answer) -> None:
    write_line()
    write_pairs(
        {
            "unattributed": percent(quality["unattributed_ratio"]),
            "inferred ends": quality["inferred_ends"],
            "ends without begin": quality["ends_without_begin"],
            "clamped spans": quality["clamped_spans"],
            "clock flags": quality["clock_flags"],
            "unreported restarts": quality["unreported_restarts"],
            "restart counts disagree": quality["restart_counts_disagree"],
            "steps went back": quality["steps_went_back"],
            "missing phases": ", ".join(quality["missing_phases"]) or "none",
            "attempts missing hooks": quality["attempts_missing_hooks"],
            "accelerators": "unknown" if quality["gpus_unknown"] else "known",
        },
        heading="quality",
    )
    # A missing phase has no place in time, and is named above.
    _write_section(_GAPS, [gap for gap in quality["gaps"] if gap["kind"] != "missing_phase"])


VERB = Verb(
    epilog="Examples: `ett job llm-7b`, `ett job llm-7b --compare --by model,cluster`.",
    options=(named("job", "the job's name"), _job_options, project, server),
    run=_job,
    write=_write_job,
)
