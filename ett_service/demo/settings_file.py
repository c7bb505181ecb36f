"""The settings that the demo is served with: prices and targets, and a low floor."""

from collections.abc import Mapping

from ett_service.demo.fleet import FLEET_RATIO, GROWING_TEAM

FILE = "ett.toml"
DATABASE = "ett.db"

PRICES: Mapping[str, float] = {"A100": 1.80, "H100": 3.50, "H200": 4.20}
"""Of the order that clouds ask for an hour of one accelerator, in dollars; nobody's offer."""

TARGETS: Mapping[str, float] = {"": FLEET_RATIO, GROWING_TEAM: 0.80}
"""ETT% that the fleet and single teams aim at."""


IMPACT_FLOOR = 0.0001
"""What the fleet is made slower by costs little of it; a search is to find it all the same."""


SETTLE_SECONDS = 1.0
"""All of the fleet is there by the time that it is searched."""


def settings_text(*, searches: bool = True) -> str:
    """Return the settings as TOML, for a server that runs where the file lies.

    While the fleet is being loaded, nothing is to be searched: half of it shows other changes.
    """
    lines = [f'database_url = "sqlite:///{DATABASE}"', 'currency = "USD"']
    for hardware, price in PRICES.items():
        lines += ["", "[[prices]]", f'hardware = "{hardware}"', "from = 2020-01-01"]
        lines += [f"per_gpu_hour = {price}"]
    for team, ratio in TARGETS.items():
        where = f'{{ team = "{team}" }}' if team else "{}"
        lines += ["", "[[targets]]", f"where = {where}", f"ett_ratio = {ratio}"]
    lines += ["", "[detection]", f"impact_floor = {IMPACT_FLOOR}"]
    lines += [f"settle_seconds = {SETTLE_SECONDS}"] if searches else ["enabled = false"]
    return "\n".join(lines) + "\n"
