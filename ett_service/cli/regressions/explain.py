"""``ett regressions explain``: a finding, and the numbers behind its verdict, on one screen."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from ett_service.charts.units import (
    Answer,
    cohort,
    cost,
    count,
    duration,
    factor,
    level_change,
    percent,
    points,
    subject,
    value,
)
from ett_service.cli.exits import Exit
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import ask

_MOST_SHARES = 5


def add_explain(acts: Any) -> argparse.ArgumentParser:
    """Declare the act."""
    parser: argparse.ArgumentParser = acts.add_parser(
        "explain", help="everything about one, and the numbers behind its verdict"
    )
    parser.set_defaults(of_act=_explain)
    parser.add_argument("id", help="as `list` shows it")
    return parser


def _explain(args: argparse.Namespace) -> int:
    path = f"/v1/regressions/{quote(args.id, safe='')}"
    found = ask(args, path, {"project": args.project})
    if args.json:
        write_json(found)
    else:
        _write(found)
    return Exit.DONE


def _write(found: Answer) -> None:
    write_line(
        f"{subject(found)} in {cohort(found['cohort'])}: {level_change(found)} ({factor(found['ratio'])})"
    )
    write_line(f"{found['verdict']}, {_state(found)}, severity {found['severity']}")
    write_line(f"costs {cost(found['impact'])}")
    write_line()
    _write_sides(found)
    _write_gates(found)
    _write_power(found)
    _write_attribution(found)
    _write_clocks(found["sla"])
    _write_history(found)


def _state(found: Answer) -> str:
    said = [f"{found['state']}, since about {minute(found['onset_at'])} (UTC)"]
    if found["reopened"]:
        said.append(f"reopened {count(found['reopened'])} times")
    if found["acknowledged_at"]:
        said.append(f"acknowledged by {_who(found, 'acknowledged_by')}")
    if found["triage"]:
        said.append(f"{_who(found, 'triage_by')} says {found['triage']}")
    if found["muted_until"]:
        said.append(f"muted until {minute(found['muted_until'])}")
    return ", ".join(said)


def _who(found: Answer, member: str) -> str:
    name: str = found[f"{member}_name"] or found[member]
    return name


def _write_sides(found: Answer) -> None:
    unit = found["unit"]
    write_table(
        ("", "n", "days", "median", "p90", "from (UTC)", "to (UTC)"),
        [
            (
                name,
                count(side["n"]),
                count(side["days"]),
                value(unit, side["median"]),
                value(unit, side["p90"]),
                minute(side["from"]),
                minute(side["to"]),
            )
            for name, side in (("before", found["before"]), ("after", found["after"]))
        ],
        right=("n", "days", "median", "p90"),
    )
    bounds = found["interval"]
    between = "unknown" if bounds is None else f"x {bounds['low']:.2f} to x {bounds['high']:.2f}"
    write_line(f"95% interval {between}; p {found['p']:.2g}, among all series q {found['q']:.2g}")
    write_line()


def _write_gates(found: Answer) -> None:
    write_table(
        ("condition", "is", "limit", "passed"),
        [
            (
                gate["name"],
                "-" if gate["value"] is None else f"{gate['value']:.4g}",
                f"{gate['limit']:.4g}",
                "yes" if gate["passed"] else "no",
            )
            for gate in found["gates"]
        ],
        right=("is", "limit"),
    )


def _write_power(found: Answer) -> None:
    power = found["power"]
    if power is None:
        write_line("The last search did not look here.")
    else:
        sizes = f"with {count(power['recent'])} against {count(power['baseline'])} values"
        seen = "no change" if power["smallest"] is None else f"a change {factor(power['smallest'])}"
        write_line(f"The last search could see {seen} here, {sizes}.")
    write_line()


def _write_attribution(found: Answer) -> None:
    said = found["attribution"]
    for name in ("phase", "cohort"):
        if shares := said[f"{name}_shares"]:
            write_line(f"by {name}: {_shares(shares)}")
    if said["within_points"] is not None and said["mix_points"] is not None:
        within, mix = points(said["within_points"] / 100), points(said["mix_points"] / 100)
        write_line(f"ETT%: {within} within cohorts, {mix} by other jobs")
    if not said["suspects"]:
        write_line("associated with: none of what was looked at explains half of it")
    else:
        write_table(
            ("associated with", "explains", "attempts", "first seen (UTC)"),
            [
                (
                    f"{one['dimension']}:{one['value']}",
                    percent(one["explains"]),
                    count(one["attempts"]),
                    minute(one["first_seen_at"]),
                )
                for one in said["suspects"]
            ],
            right=("explains", "attempts"),
        )
    if beside := said["side_by_side"]:
        write_line(
            f"side by side after the onset: {beside['dimension']}:{beside['value']} "
            f"({count(beside['attempts'])}) against {beside['against'] or 'all others'} "
            f"({count(beside['against_attempts'])}): {factor(beside['ratio'])}, p {beside['p']:.2g}"
        )
    if said["markers"]:
        write_table(
            ("marker near the onset", "kind", "at (UTC)"),
            [(one["title"], one["kind"], minute(one["at"])) for one in said["markers"]],
        )
    if said["examples"]:
        shown = ", ".join(f"{one['job']} ({one['number']})" for one in said["examples"])
        write_line(f"attempts that show it: {shown}")
    write_line()


def _shares(shares: Mapping[str, float]) -> str:
    largest = sorted(shares.items(), key=lambda item: -abs(item[1]))
    shown = ", ".join(f"{name} {percent(share)}" for name, share in largest[:_MOST_SHARES])
    rest = len(largest) - _MOST_SHARES
    return f"{shown}, and {count(rest)} more" if rest > 0 else shown


def _write_clocks(sla: Answer | None) -> None:
    if sla is None:
        return
    rows = [(f"to {name}", clock) for name, clock in sla.items() if clock is not None]
    write_table(
        ("time", "took", "promised", ""),
        [
            (name, duration(clock["seconds"]), duration(clock["limit_seconds"]), _kept(clock))
            for name, clock in rows
        ],
        right=("took", "promised"),
    )
    write_line()


def _kept(clock: Answer) -> str:
    said = ["so far"] if clock["runs"] else []
    return ", ".join([*said, *(["late"] if clock["breached"] else [])])


def _write_history(found: Answer) -> None:
    write_table(
        ("at (UTC)", "what", "by", "why"),
        [
            (minute(one["at"]), one["what"], one["by_name"] or one["by"], one["why"])
            for one in found["history"]
        ],
    )
    _write_mutes(found["mutes"])


def _write_mutes(mutes: Iterable[Answer]) -> None:
    for mute in mutes:
        said = f"{mute['id']} until {minute(mute['until'])}: {mute['why']}"
        write_line(f"muted by {mute['made_by_name'] or mute['made_by']}, {said}")
