import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from ett_service.metrics.rules.files import pyrra, sloth, sloth_windows
from ett_service.metrics.rules.rule import COMPOSE, Objective
from tests.builders.servers.programs import needed

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "dashboards" / "rules" / "examples" / "alertmanager.yaml"
DEPLOYED = ROOT / "deploy" / "alertmanager.yml"


def test_sloth_burns_at_the_same_factors_as_our_own_alerts() -> None:
    """Its factor is the part of the budget over the part of the period."""
    objective = Objective(Fraction("0.85"))
    windows: dict[str, dict[str, dict[str, Any]]] = sloth_windows(objective)["spec"]  # type: ignore[assignment]
    for severity, burn in zip(("page", "ticket"), objective.burns, strict=True):
        for window in windows[severity].values():
            share = Fraction(str(window["errorBudgetPercent"])) / 100
            assert share * 720 / burn.long_hours == burn.factor
            assert (window["longWindow"], window["shortWindow"]) == (burn.long, burn.short)


def test_sloth_and_pyrra_have_the_objective_in_percent() -> None:
    objective = Objective(Fraction("0.855"))
    assert sloth(objective, COMPOSE)["slos"][0]["objective"] == 85.5  # type: ignore[index,call-overload]
    assert pyrra(objective)["spec"]["target"] == "85.5"  # type: ignore[index,call-overload]


def test_what_a_severity_is_routed_to_is_the_receiver_of_its_name() -> None:
    amtool = needed("amtool", "prometheus-alertmanager")
    for path in (EXAMPLE, DEPLOYED):
        for severity, receiver in (
            ("page", "page"),
            ("ticket", "ticket"),
            ("none", "heartbeat"),
        ):
            command = [amtool, "config", "routes", "test", f"--config.file={path}"]
            routed = subprocess.run(
                [*command, f"severity={severity}"], capture_output=True, text=True, check=True
            )
            assert routed.stdout.split() == [receiver]


def test_compose_keeps_the_same_alerts_quiet_as_the_example() -> None:
    example, deployed = (yaml.safe_load(path.read_text("utf-8")) for path in (EXAMPLE, DEPLOYED))
    assert deployed["inhibit_rules"] == example["inhibit_rules"]
