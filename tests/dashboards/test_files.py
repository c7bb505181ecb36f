"""The committed files are what the program writes."""

from pathlib import Path

from dashboards.build import PACKS
from dashboards.build.files import texts, write
from tests.dashboards.files import ROOT


def test_every_dashboard_is_kept_as_the_program_writes_it() -> None:
    stored = {
        path.relative_to(ROOT): path.read_text("utf-8")
        for pack in PACKS
        for path in (ROOT / pack.folder).glob("*")
    }
    expected = texts(PACKS)
    assert stored.keys() == expected.keys()
    assert [path for path in expected if expected[path] != stored[path]] == [], (
        "run `make dashboards`"
    )


def test_it_writes_the_same_each_time_and_drops_what_is_no_more(tmp_path: Path) -> None:
    write(PACKS, tmp_path)
    stray = tmp_path / PACKS[0].folder / "ett-gone.json"
    stray.write_text("{}")
    write(PACKS, tmp_path)
    written_files = {
        path.relative_to(tmp_path): path.read_text("utf-8") for path in tmp_path.rglob("*.json")
    }
    assert written_files == texts(PACKS)
