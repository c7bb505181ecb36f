"""``ett rules``: recording and alert rules for Prometheus, computed for a target."""

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from fractions import Fraction
from pathlib import Path

from ett_service.cli.arguments import config
from ett_service.cli.operations.config import loaded
from ett_service.cli.output import write_line
from ett_service.cli.tables import Column, text, write_table
from ett_service.cli.verb import Verb
from ett_service.metrics.rules.files import files, one_file, prometheus_rule
from ett_service.metrics.rules.rule import (
    BUDGET_DAYS,
    COMPOSE,
    Burn,
    Links,
    Objective,
    decimal,
    percent,
)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        type=_number,
        default=Fraction(9, 10),
        metavar="RATIO",
        help=f"least ETT ratio of {BUDGET_DAYS} days (default 0.9)",
    )
    for name, default, severity in (("fast", "3", "page"), ("slow", "1.3", "ticket")):
        parser.add_argument(
            f"--{name}-factor",
            type=_number,
            default=Fraction(default),
            metavar="X",
            help=f"burn rate of the budget that is worth a {severity} (default {default})",
        )
    parser.add_argument(
        "--runbook-url",
        metavar="URL",
        help="address of the runbooks that alerts link to (default: the service's own, under the "
        f"setting public_url; without it they have no link). With compose: {COMPOSE.runbooks}",
    )
    parser.add_argument(
        "--dashboard-url",
        default="",
        metavar="URL",
        help="address of Grafana that alerts link to (default: they have no link). With compose: "
        f"{COMPOSE.dashboards}",
    )
    config(parser)
    written = parser.add_mutually_exclusive_group()
    written.add_argument(
        "--output", type=Path, metavar="DIR", help="write files there (default: print all rules)"
    )
    written.add_argument(
        "--kubernetes", action="store_true", help="print a PrometheusRule of the operator instead"
    )


def _rules(args: Namespace) -> str | None:
    """Return the rules; with a folder, write them there and print when the budget alerts fire."""
    objective = Objective(args.target, args.fast_factor, args.slow_factor)
    runbooks = args.runbook_url
    if runbooks is None:
        public = loaded(args).settings.public_url.rstrip("/")
        runbooks = public and f"{public}/docs/runbooks"
    links = Links(runbooks, args.dashboard_url)
    if args.output is None:
        form = prometheus_rule if args.kubernetes else one_file
        return form(objective, links)
    for name, content in files(objective, links).items():
        path = args.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
        write_line(str(path))
    write_line()
    write_table(_burn_columns(objective), objective.burns)
    return None


def _burn_columns(objective: Objective) -> tuple[Column, ...]:
    def threshold(burn: Burn) -> str:
        return f"{percent(objective.fires_at(burn))} ineffective"

    def days(burn: Burn) -> str:
        return f"{float(BUDGET_DAYS / burn.factor):.3g}d"

    return (
        text("alert", lambda burn: burn.name),
        text("severity", lambda burn: burn.severity),
        text("burn rate", lambda burn: f"{decimal(burn.factor)}x"),
        text("long window", lambda burn: burn.long),
        text("short window", lambda burn: burn.short),
        text("fires above", threshold),
        text("budget lasts", days),
        text("budget spent by then", lambda burn: percent(burn.budget_share)),
    )


def _number(text: str) -> Fraction:
    try:
        if math.isfinite(float(text)):
            return Fraction(text)
    except ValueError:
        pass
    raise ArgumentTypeError(f"{text!r} is not a number, such as 0.9")


VERB = Verb(
    epilog="Examples: `ett rules --target 0.85 --output /etc/prometheus/rules/ett`, "
    "`ett rules --kubernetes | kubectl apply -f -`.",
    options=(_options,),
    run=_rules,
)
