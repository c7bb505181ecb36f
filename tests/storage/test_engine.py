"""Both stores keep the same promises."""

from ett_service.storage.engine import Store


def test_a_store_opens(store: Store, project_id: int) -> None:
    assert project_id > 0
