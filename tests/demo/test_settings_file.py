"""The demo's settings are settings, and price all hardware that the fleet has."""

import tomllib
from pathlib import Path

from ett_service.demo.fleet import IMPACT_FLOOR, MODELS, PRICES, TARGETS, TEAMS, settings_text
from ett_service.settings import load


def test_the_server_takes_the_settings_of_the_demo(tmp_path: Path) -> None:
    file = tmp_path / "ett.toml"
    file.write_text(settings_text())
    settings = load({}, file).settings
    assert settings.database_url == "sqlite:///ett.db"
    assert {price.hardware: price.per_gpu_hour for price in settings.prices} == PRICES
    assert {target.where.get("team", ""): target.ett_ratio for target in settings.targets} == (
        TARGETS
    )
    assert settings.detection.impact_floor == IMPACT_FLOOR
    assert tomllib.loads(settings_text())["currency"] == settings.currency


def test_nothing_is_searched_before_the_fleet_is_there(tmp_path: Path) -> None:
    file = tmp_path / "ett.toml"
    for searches in (False, True):
        file.write_text(settings_text(searches=searches))
        assert load({}, file).settings.detection.enabled == searches


def test_all_hardware_of_the_fleet_has_a_price_and_targets_name_teams() -> None:
    assert {model.hardware for model in MODELS} == set(PRICES)
    assert set(TARGETS) <= {"", *TEAMS}
