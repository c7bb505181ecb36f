"""The rules as files: what Prometheus, its operator, Sloth and Pyrra load."""

from collections.abc import Mapping
from typing import Any

import yaml

from ett_service.rules import budget, fleet, own, recording, watch
from ett_service.rules.examples import pyrra, sloth, sloth_windows
from ett_service.rules.objective import Objective, decimal
from ett_service.rules.rule import Group, Links, Plain, Scale

_WIDEST = 1_000_000


def groups(objective: Objective, scale: Scale | None = None) -> dict[str, list[Group]]:
    """Return the groups of rules by the name of their file."""
    scale = scale or Scale()
    return {
        "recording.yaml": recording.groups(objective, scale),
        "alerts.yaml": [
            Group("ett.budget", [*budget.alerts(objective, scale)]),
            Group("ett.fleet", [*fleet.alerts(scale)]),
            Group("ett.regressions", [*watch.alerts(scale)]),
            Group("ett.service", [*own.alerts(scale)]),
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
    return {name: _written(told, objective) for name, told in (rules | examples).items()}


def one_file(objective: Objective, links: Links) -> str:
    """Return all rules as one rule file."""
    return _written(_plain(_all(objective), Scale(), links), objective)


def prometheus_rule(objective: Objective, links: Links) -> str:
    """Return all rules as one object of the Prometheus operator."""
    told: dict[str, Plain] = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "ett", "labels": {"app.kubernetes.io/name": "ett"}},
        "spec": _plain(_all(objective), Scale(), links),
    }
    return _written(told, objective)


def _all(objective: Objective) -> list[Group]:
    return [group for of_file in groups(objective).values() for group in of_file]


def _plain(of_file: list[Group], scale: Scale, links: Links) -> dict[str, Plain]:
    return {"groups": [group.plain(scale, links) for group in of_file]}


def _written(told: Mapping[str, Plain], objective: Objective) -> str:
    head = (
        f"# Written by `ett rules --target {decimal(objective.target)}`; change that, not this.\n"
    )
    body = yaml.dump(told, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDEST)
    return head + str(body)


class _Dumper(yaml.SafeDumper):
    """Writes expressions of several lines as such, and lists indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 -- the library's own signature
        """Indent lists, too."""
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- likewise
        """Never write an anchor."""
        return True


def _text(dumper: yaml.SafeDumper, told: str) -> yaml.ScalarNode:
    style = "|" if "\n" in told else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", told, style=style)


_Dumper.add_representer(str, _text)
