"""The rules as files for Prometheus, its operator, Sloth and Pyrra."""

from collections.abc import Mapping
from typing import Any

import yaml

from ett_service.metrics.rules import alerts, recording
from ett_service.metrics.rules.recording import INEFFECTIVE, WEIGHTED
from ett_service.metrics.rules.rule import (
    BUDGET_DAYS,
    Burn,
    Group,
    Links,
    Objective,
    Plain,
    Scale,
    decimal,
)

_NAME = "effective-training-time"
_DESCRIPTION = "Accelerator time of the fleet that is effective training."


def sloth(objective: Objective, links: Links) -> dict[str, Plain]:
    """Return an SLO of Sloth; its alerts need the windows of ``sloth_windows``."""
    fast, slow = objective.burns
    return {
        "version": "prometheus/v1",
        "service": "training",
        "slos": [
            {
                "name": _NAME,
                "objective": float(objective.target * 100),
                "description": _DESCRIPTION,
                "sli": {
                    "events": {
                        "error_query": f"sum(rate({INEFFECTIVE}[{{{{.window}}}}]))",
                        "total_query": f"sum(rate({WEIGHTED}[{{{{.window}}}}]))",
                    }
                },
                "alerting": {
                    "name": "EttBudgetBurn",
                    "annotations": {
                        **Links(links.runbooks).annotations(f"{fast.name.lower()}.md", "")
                    },
                    "page_alert": {"labels": {"severity": fast.severity}},
                    "ticket_alert": {"labels": {"severity": slow.severity}},
                },
            }
        ],
    }


def sloth_windows(objective: Objective) -> dict[str, Plain]:
    """Return the windows of Sloth's alerts: two for each severity, here the same."""

    def window(burn: Burn) -> dict[str, Plain]:
        return {
            "errorBudgetPercent": float(burn.budget_share * 100),
            "shortWindow": burn.short,
            "longWindow": burn.long,
        }

    fast, slow = (window(burn) for burn in objective.burns)
    return {
        "apiVersion": "sloth.slok.dev/v1",
        "kind": "AlertWindows",
        "spec": {
            "sloPeriod": f"{BUDGET_DAYS}d",
            "page": {"quick": fast, "slow": fast},
            "ticket": {"quick": slow, "slow": slow},
        },
    }


def pyrra(objective: Objective) -> dict[str, Plain]:
    """Return an SLO of Pyrra without alerts: its burn rates of 14 and 7 cannot be reached."""
    return {
        "apiVersion": "pyrra.dev/v1alpha1",
        "kind": "ServiceLevelObjective",
        "metadata": {"name": _NAME},
        "spec": {
            "description": _DESCRIPTION,
            "target": f"{float(objective.target * 100):g}",
            "window": f"{BUDGET_DAYS}d",
            "indicator": {
                "ratio": {
                    "errors": {"metric": INEFFECTIVE},
                    "total": {"metric": WEIGHTED},
                    "grouping": ["cluster"],
                }
            },
            "alerting": {"disabled": True},
        },
    }


_WIDEST = 1_000_000


def groups(objective: Objective, scale: Scale | None = None) -> dict[str, list[Group]]:
    """Return the groups of rules by the name of their file."""
    scale = scale or Scale()
    return {
        "recording.yaml": recording.groups(objective, scale),
        "alerts.yaml": [
            Group("ett.budget", [*alerts.budget_alerts(objective, scale)]),
            Group("ett.fleet", [*alerts.fleet_alerts(scale)]),
            Group("ett.regressions", [*alerts.regression_alerts(scale)]),
            Group("ett.service", [*alerts.service_alerts(scale)]),
        ],
    }


def files(objective: Objective, links: Links, scale: Scale | None = None) -> dict[str, str]:
    """Return the text of every file by its name; with *scale* every duration is divided by it."""
    scale = scale or Scale()
    rules = {
        name: _plain(of_file, scale, links) for name, of_file in groups(objective, scale).items()
    }
    examples = {
        "examples/pyrra.yaml": pyrra(objective),
        "examples/sloth.yaml": sloth(objective, links),
        "examples/sloth-windows.yaml": sloth_windows(objective),
    }
    return {name: _yaml(content, objective) for name, content in (rules | examples).items()}


def one_file(objective: Objective, links: Links) -> str:
    """Return all rules as one rule file."""
    return _yaml(_plain(_all(objective), Scale(), links), objective)


def prometheus_rule(objective: Objective, links: Links) -> str:
    """Return all rules as one object of the Prometheus operator."""
    content: dict[str, Plain] = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "ett", "labels": {"app.kubernetes.io/name": "ett"}},
        "spec": _plain(_all(objective), Scale(), links),
    }
    return _yaml(content, objective)


def _all(objective: Objective) -> list[Group]:
    return [group for of_file in groups(objective).values() for group in of_file]


def _plain(of_file: list[Group], scale: Scale, links: Links) -> dict[str, Plain]:
    return {"groups": [group.plain(scale, links) for group in of_file]}


def _yaml(content: Mapping[str, Plain], objective: Objective) -> str:
    head = (
        f"# Written by `ett rules --target {decimal(objective.target)}`; change that, not this.\n"
    )
    body = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDEST)
    return head + str(body)


class _Dumper(yaml.SafeDumper):
    """Writes expressions of several lines as blocks, and lists indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 -- the library's own signature
        """Indent lists, too."""
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- likewise
        """Never write an anchor."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
