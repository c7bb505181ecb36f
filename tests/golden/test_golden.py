"""What the service shows of a seeded fleet is what was recorded of it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.golden import commands, requests
from tests.golden.files import DATA, TEXT, contents, difference, recorded

ROOT = Path(__file__).parents[2]
RECORDED = recorded()

# Recorded once, by one process; it runs some hundred commands and requests.
pytestmark = [pytest.mark.xdist_group("golden"), pytest.mark.timeout(600)]
recorded_anew = pytest.mark.long


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return what every file would hold if it were recorded now."""
    return contents(tmp_path_factory.mktemp("golden"))


def test_every_route_that_reads_is_asked() -> None:
    paths = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    templates = {path for path, operations in paths.items() if "get" in operations}
    requested = {
        template for template in templates for path in requests.READ if _fits(template, path)
    }
    # What keys sent is written at times, and depends on when it is read.
    assert templates - requested == {"/metrics", "/v1/key-usage"}, (
        "add a request to tests/golden/requests.py"
    )


def _fits(template: str, path: str) -> bool:
    pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
    return re.fullmatch(pattern, path.partition("?")[0]) is not None


def test_every_verb_is_run() -> None:
    verbs = {words.removesuffix(" --help") for words in json.loads(RECORDED["arguments.data.json"])}
    leaves = {verb for verb in verbs if not any(other.startswith(f"{verb} ") for other in verbs)}
    run = {verb for verb in leaves for command in _run() if f"{command} ".startswith(f"{verb} ")}
    assert leaves - run - commands.NOT_RUN.keys() == {"--help"}, "see tests/golden/commands.py"


def _run() -> list[str]:
    groups = (
        commands.OF_THE_SERVER,
        commands.OF_THE_DATABASE,
        commands.AS_THEY_ARE,
        commands.THAT_WRITE,
    )
    return [command for group in groups for command in group]


@recorded_anew
def test_the_same_surfaces_are_recorded(now: Mapping[str, str]) -> None:
    assert sorted(now) == sorted(RECORDED), "see tests/golden/files.py"


@recorded_anew
@pytest.mark.parametrize("name", sorted(name for name in RECORDED if name.endswith(DATA)))
def test_data_is_as_it_was_recorded(name: str, now: Mapping[str, str]) -> None:
    changed = difference(name, RECORDED[name], now[name])
    assert not changed, f"{changed}\nWas it meant to change? make golden DATA=1"


@recorded_anew
@pytest.mark.parametrize("name", sorted(name for name in RECORDED if name.endswith(TEXT)))
def test_wording_is_as_it_was_recorded(name: str, now: Mapping[str, str]) -> None:
    changed = difference(name, RECORDED[name], now[name])
    assert not changed, f"{changed}\nIf the words read well: make golden"
