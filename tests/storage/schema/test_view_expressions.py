"""An instant in the views is the instant that was stored, as each engine writes it."""

import pytest

from ett_service.storage.engine.store import Store
from ett_service.storage.schema import marker
from tests.builders.clock import NOON, SECOND
from tests.storage.viewed import instant, read


def test_a_marker_stands_at_its_instant(store: Store, dialect: str, project_id: int) -> None:
    columns = {"id": "m", "kind": "deploy", "title": "v2", "labels": "{}", "made_by": "k"}
    at = {"project_id": project_id, "at_us": NOON, "end_us": None, "made_us": NOON + SECOND}
    store.write(lambda conn: conn.execute(marker.insert(), columns | at))

    (row,) = read(store, "SELECT * FROM ett_v_markers")

    assert row["at"] == instant(NOON, dialect)
    assert row["end_at"] is None
    assert row["made_at"] == instant(NOON + SECOND, dialect)


@pytest.mark.parametrize("us", [-1, -1_000_001, 0, 1, 999_999, 8_999_999_999_999_999])
def test_an_instant_is_reported_to_the_microsecond(
    store: Store, dialect: str, project_id: int, us: int
) -> None:
    columns = {"id": "m", "kind": "deploy", "title": "v2", "labels": "{}", "made_by": "k"}
    at = {"project_id": project_id, "at_us": us, "end_us": None, "made_us": us}
    store.write(lambda conn: conn.execute(marker.insert(), columns | at))

    assert read(store, "SELECT at FROM ett_v_markers") == [{"at": instant(us, dialect)}]
