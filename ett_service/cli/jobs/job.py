"""``ett job``: what one job spent its time on, what broke, and what the numbers rest on."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ett_service.charts.units import amount, count
from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.output import clock, minute, percent, write_json, write_line, write_table
from ett_service.cli.remote import ask

MICROSECONDS = 1_000_000

Answer = Mapping[str, Any]


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("job", help="show one job's ledger")
    parser.add_argument("name", help="the job's name")
    parser.add_argument("--project", help="another project than the key's own")
    add_server(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print everything that is known of a job."""
    job = ask(args, f"/v1/jobs/{quote(args.name, safe='')}", {"project": args.project})
    if args.json:
        write_json(job)
        return Exit.DONE
    _write_head(job)
    _write_ledger(job)
    _write_productivity(job["productivity"])
    _write_attempts(job["attempts"])
    _write_recoveries(job["recoveries"])
    _write_exclusions(job["exclusions"])
    _write_quality(job["quality"])
    return Exit.DONE


def _write_head(job: Answer) -> None:
    so_far = ", numbers so far" if job["provisional"] else ""
    write_line(f"{job['job']}: {job['state']}{so_far}")
    write_table(
        ("ETT%", "E2E", "time to start", "failures", "of them infra", "wasted", "unsaved training"),
        [
            (
                percent(job["ett_ratio"]),
                clock(job["e2e_seconds"]),
                clock(job["time_to_start_seconds"]),
                job["failures"],
                job["infra_failures"],
                percent(job["wasted_ratio"]),
                clock(job["unsaved_training_seconds"]),
            )
        ],
    )


def _write_ledger(job: Answer) -> None:
    e2e_us = _us(job["e2e_seconds"])
    spent = {name: _us(seconds) for name, seconds in job["categories"].items()}
    write_line()
    write_table(
        ("category", "seconds", "share"),
        [(name, _exact(us), percent(us / e2e_us)) for name, us in spent.items() if us],
        right=("seconds", "share"),
        last=("E2E", _exact(sum(spent.values())), percent(1.0 if e2e_us else None)),
    )


def _write_productivity(found: Answer) -> None:
    rates = [
        (
            made,
            count(found[made]),
            amount(found[f"{made}_per_second"]),
            amount(found[f"{made}_per_second_per_accelerator"]),
        )
        for made in ("tokens", "samples")
        if found[made]
    ]
    if not rates and found["mfu"] is None:
        return
    write_line()
    write_table(
        ("while training", "in all", "a second", "and accelerator"),
        rates,
        right=("in all", "a second", "and accelerator"),
    )
    write_line(f"MFU {percent(found['mfu'])}; ETT% x MFU {percent(found['useful_ratio'])}")


def _write_attempts(attempts: Sequence[Answer]) -> None:
    if not attempts:
        return
    write_line()
    write_table(
        (
            "attempt",
            "launch/attempt/cycle",
            "began (UTC)",
            "lasted",
            "gpus",
            "outcome",
            "cause",
            "evidence",
        ),
        [
            (
                attempt["number"],
                f"{attempt['launch'] or '-'}/{attempt['attempt']}/{attempt['cycle']}",
                minute(attempt["started_at"]),
                clock(sum(attempt["categories"].values())),
                attempt["gpus"],
                attempt["outcome"],
                _cause(attempt),
                _evidence(attempt),
            )
            for attempt in attempts
        ],
        right=("attempt", "lasted", "gpus"),
    )


def _write_recoveries(recoveries: Sequence[Answer]) -> None:
    if not recoveries:
        return
    write_line()
    write_table(
        ("recovery", "seconds", "spent on", "stalled before", "repeated after"),
        [
            (
                f"{recovery['interrupted']} -> {_or_dash(recovery['resumed'])}",
                _exact(_us(recovery["seconds"])),
                ", ".join(f"{name} {seconds:.1f}" for name, seconds in recovery["parts"].items()),
                _exact(_us(recovery["stalled_seconds"])),
                _exact(_us(recovery["repeated_seconds"])),
            )
            for recovery in recoveries
        ],
        right=("seconds", "stalled before", "repeated after"),
    )


def _write_exclusions(exclusions: Sequence[Answer]) -> None:
    if not exclusions:
        return
    write_line()
    write_table(
        ("not in fleet numbers from (UTC)", "to (UTC)", "by", "why"),
        [
            (
                minute(one["from"]),
                minute(one["to"]),
                one["made_by_name"] or one["made_by"],
                one["why"],
            )
            for one in exclusions
        ],
    )


def _write_quality(quality: Answer) -> None:
    counts = {
        "unattributed": percent(quality["unattributed_ratio"]),
        "inferred ends": quality["inferred_ends"],
        "ends without begin": quality["ends_without_begin"],
        "clamped spans": quality["clamped_spans"],
        "clock flags": quality["clock_flags"],
        "missing phases": ", ".join(quality["missing_phases"]) or "none",
        "accelerators": "unknown" if quality["gpus_unknown"] else "known",
    }
    write_line()
    write_table(("quality", ""), counts.items())
    # A phase that is missing lies nowhere in time, and is named above.
    gaps = [gap for gap in quality["gaps"] if gap["kind"] != "missing_phase"]
    if gaps:
        write_line()
        write_table(
            ("gap", "attempt", "from", "to", "what was inferred"),
            [
                (
                    gap["kind"],
                    _or_dash(gap["number"]),
                    _or_dash(gap["started_at"]),
                    _or_dash(gap["ended_at"]),
                    gap["detail"] + (f" (event {gap['event_id']})" if gap["event_id"] else ""),
                )
                for gap in gaps
            ],
        )


def _cause(attempt: Answer) -> str:
    told = f"{attempt['origin']}: {attempt['cause']}" if attempt["origin"] else "-"
    verdict = attempt["verdict"]
    if verdict is None:
        return told
    return f"{told} (verdict; the rules: {verdict['rules_origin']}: {verdict['rules_cause']})"


def _evidence(attempt: Answer) -> str:
    if not attempt["evidence"]:
        return attempt["reason"] or "-"
    return f"{attempt['evidence']['rule']}: {attempt['evidence']['text']}"


def _or_dash(value: object) -> object:
    return "-" if value is None else value


def _us(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


def _exact(us: int) -> str:
    whole, part = divmod(us, MICROSECONDS)
    return f"{whole}.{part:06}"
