"""``ett rules``: recording and alert rules for Prometheus, computed for a target."""

import argparse
import math
import sys
from fractions import Fraction
from pathlib import Path

from ett_service.cli.exits import Exit
from ett_service.cli.output import write_line, write_table
from ett_service.metrics.rules.files import files, one_file, prometheus_rule
from ett_service.metrics.rules.objective import BUDGET_DAYS, Objective, decimal, percent
from ett_service.metrics.rules.rule import Links


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "rules",
        help="write rules for Prometheus",
        epilog="Examples: `ett rules --target 0.85 --output /etc/prometheus/rules/ett`, "
        "`ett rules --kubernetes | kubectl apply -f -`.",
    )
    parser.add_argument(
        "--target",
        type=_number,
        default=Fraction(9, 10),
        metavar="RATIO",
        help=f"the ETT that {BUDGET_DAYS} days are to have at least (default 0.9)",
    )
    for name, default, severity in (("fast", "3", "page"), ("slow", "1.3", "ticket")):
        parser.add_argument(
            f"--{name}-factor",
            type=_number,
            default=Fraction(default),
            metavar="X",
            help=f"so many times too fast the budget burns for a {severity} (default {default})",
        )
    defaults = Links()
    parser.add_argument(
        "--runbook-url",
        default=defaults.runbooks,
        metavar="URL",
        help=f"where docs/runbooks is served (default {defaults.runbooks})",
    )
    parser.add_argument(
        "--dashboard-url",
        default=defaults.dashboards,
        metavar="URL",
        help=f"address of Grafana (default {defaults.dashboards})",
    )
    written = parser.add_mutually_exclusive_group()
    written.add_argument(
        "--output", type=Path, metavar="DIR", help="write files (default: all rules to stdout)"
    )
    written.add_argument(
        "--kubernetes", action="store_true", help="write a PrometheusRule of the operator instead"
    )


def run(args: argparse.Namespace) -> int:
    """Write the rules; with a folder, print at what the alerts on the budget fire."""
    objective = Objective(args.target, args.fast_factor, args.slow_factor)
    links = Links(args.runbook_url, args.dashboard_url)
    if args.output is None:
        form = prometheus_rule if args.kubernetes else one_file
        sys.stdout.write(form(objective, links))
        return Exit.DONE
    for name, text in files(objective, links).items():
        path = args.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        write_line(str(path))
    write_line()
    _write_burns(objective)
    return Exit.DONE


def _write_burns(objective: Objective) -> None:
    columns = (
        "alert",
        "severity",
        "burns",
        "over",
        "and",
        "fires above",
        "gone in",
        "gone by then",
    )
    rows = [
        (
            burn.name,
            burn.severity,
            f"{decimal(burn.factor)}x",
            burn.long,
            burn.short,
            f"{percent(objective.fires_at(burn))} ineffective",
            f"{float(BUDGET_DAYS / burn.factor):.3g}d",
            percent(burn.budget_share),
        )
        for burn in objective.burns
    ]
    write_table(columns, rows)


def _number(text: str) -> Fraction:
    try:
        if math.isfinite(float(text)):
            return Fraction(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no number, such as 0.9")
