"""What a server does as it starts: the first key, and what it records of its settings."""

from pathlib import Path

import pytest

from ett_service.api.start import AUDITED, hand_out_first_key, install_command, record_settings
from ett_service.settings import Settings
from ett_service.storage.engine.store import Store
from ett_service.storage.record import audit
from ett_service.storage.record.audit import Action, AuditFilter, Entry, Via
from ett_service.storage.record.keys import list_keys
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE

RECEIVER = {"name": "oncall", "url": "https://example.com/CANARY", "secret": "CANARY"}


def entries(store: Store) -> list[Entry]:
    with store.reading() as conn:
        return audit.listing(conn, AuditFilter(), limit=10)


@ON_ONE_ENGINE
def test_the_first_key_is_written_once_and_recorded(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "first.key"
    for _ in range(2):
        hand_out_first_key(store, NOON, file, "http://ett")
    with store.reading() as conn:
        (key,) = list_keys(conn)

    assert file.read_text("ascii")[:12] == key.prefix
    assert file.stat().st_mode & 0o777 == 0o600
    (entry,) = entries(store)
    assert (entry.action, entry.target, entry.made_via) == (
        Action.KEY_CREATED,
        key.prefix,
        Via.START,
    )


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install ett-service"),
        ('{"dir_info": {}, "url": "file:///a%20b/ett"}', "pip install '/a b/ett'"),
        (
            '{"dir_info": {"editable": true}, "url": "file:///src/ett"}',
            "pip install -e /src/ett",
        ),
        (
            '{"archive_info": {}, "url": "https://example.com/ett.whl"}',
            "pip install https://example.com/ett.whl",
        ),
        (
            '{"vcs_info": {"vcs": "git", "commit_id": "abc"}, "url": "https://example.com/ett"}',
            "pip install git+https://example.com/ett@abc",
        ),
    ],
)
def test_the_client_is_installed_from_where_the_server_came(
    origin: str | None, command: str
) -> None:
    assert install_command(origin) == command


def test_settings_that_change_between_starts_are_recorded_once(store: Store) -> None:
    before = Settings(currency="USD", port=1)
    price = {"hardware": "H100", "from": "2026-01-01", "per_gpu_hour": 2}
    after = Settings.model_validate({"currency": "EUR", "port": 2, "prices": [price]})
    for settings in (before, before, after, after):
        record_settings(store, settings, NOON)

    (entry,) = entries(store)
    assert entry.action is Action.SETTINGS_CHANGED
    assert entry.details == {
        "currency": {"from": "USD", "to": "EUR"},
        "prices": {
            "from": [],
            "to": [{"hardware": "H100", "from": "2026-01-01", "per_gpu_hour": 2.0}],
        },
    }


@ON_ONE_ENGINE
def test_no_secret_is_recorded(store: Store) -> None:
    for receivers in ([], [RECEIVER]):
        members = {"receivers": receivers, "secret_key": "CANARY"}
        record_settings(store, Settings.model_validate(members), NOON)

    (entry,) = entries(store)
    assert "oncall" in str(entry)
    assert "CANARY" not in str(entry)


@pytest.mark.parametrize("name", sorted(AUDITED))
def test_what_is_recorded_is_a_setting(name: str) -> None:
    assert name in Settings.model_fields
