"""Secrets are sealed under a key that is not in the database."""

import stat
import threading
from pathlib import Path

import pytest

from ett_service.storage.engine.seal import CannotUnseal, Keyring, NoSecretKey, key_file

FORMER, LATER = "f" * 32, "l" * 32
POSTGRESQL = "postgresql+psycopg://ett@localhost/ett"


def _sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ett.db'}"


def test_what_is_sealed_is_unsealed_with_the_same_key_alone() -> None:
    sealed = Keyring(FORMER, POSTGRESQL).seal("whsec_CANARY")
    assert "CANARY" not in sealed
    assert Keyring(FORMER, POSTGRESQL).unseal(sealed) == "whsec_CANARY"
    with pytest.raises(CannotUnseal, match="another key"):
        Keyring(LATER, POSTGRESQL).unseal(sealed)


def test_the_first_key_seals_and_every_one_unseals() -> None:
    of_former = Keyring(FORMER, POSTGRESQL).seal("a")
    both = Keyring(f"{LATER}, {FORMER}", POSTGRESQL)
    assert both.unseal(of_former) == "a"
    assert Keyring(LATER, POSTGRESQL).unseal(both.seal("b")) == "b"


def test_only_the_first_key_is_the_newest() -> None:
    of_former = Keyring(FORMER, POSTGRESQL).seal("a")
    both = Keyring(f"{LATER}, {FORMER}", POSTGRESQL)
    assert (both.is_newest(of_former), both.is_newest(both.seal("a"))) == (False, True)


def test_the_key_beside_sqlite_still_unseals_once_the_settings_name_one(tmp_path: Path) -> None:
    sealed = Keyring("", _sqlite(tmp_path)).seal("a")
    named = Keyring(LATER, _sqlite(tmp_path))
    assert (named.unseal(sealed), named.is_newest(sealed)) == ("a", False)


def test_postgresql_without_a_key_says_which_setting_is_missing() -> None:
    with pytest.raises(NoSecretKey, match="`secret_key`") as refused:
        Keyring("", POSTGRESQL).seal("a")
    assert "ETT_SECRET_KEY" in refused.value.hint


def test_a_key_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(NoSecretKey, match="under 32 characters") as refused:
        Keyring(f"{FORMER},hunter2", POSTGRESQL).seal("a")
    assert "hunter2" not in str(refused.value)


def test_sqlite_makes_a_key_beside_itself_at_first_use(tmp_path: Path) -> None:
    keyring = Keyring("", _sqlite(tmp_path))
    file = key_file(tmp_path / "ett.db")
    assert not file.exists()
    sealed = keyring.seal("a")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["ett.db.key"]
    assert Keyring("", _sqlite(tmp_path)).unseal(sealed) == "a"


def test_two_who_make_the_key_at_once_have_the_same(tmp_path: Path) -> None:
    sealed: list[str] = []
    threads = [
        threading.Thread(target=lambda: sealed.append(Keyring("", _sqlite(tmp_path)).seal("a")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [Keyring("", _sqlite(tmp_path)).unseal(text) for text in sealed] == ["a"] * 8


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    Keyring("", _sqlite(tmp_path)).seal("a")
    file = key_file(tmp_path / "ett.db")
    file.chmod(0o640)
    with pytest.raises(NoSecretKey, match="can be read by others") as refused:
        Keyring("", _sqlite(tmp_path)).seal("a")
    assert "chmod 600" in refused.value.hint


def test_a_file_that_holds_no_key_is_refused(tmp_path: Path) -> None:
    file = key_file(tmp_path / "ett.db")
    file.touch(0o600)
    file.write_text("no key")
    with pytest.raises(NoSecretKey, match="holds no key"):
        Keyring("", _sqlite(tmp_path)).seal("a")


def test_a_link_in_place_of_the_key_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(0o600)
    key_file(tmp_path / "ett.db").symlink_to(elsewhere)
    with pytest.raises(NoSecretKey, match="cannot be opened"):
        Keyring("", _sqlite(tmp_path)).seal("a")


def test_what_is_sealed_for_one_purpose_is_closed_to_another(tmp_path: Path) -> None:
    for secret_key, url in ((FORMER, ""), ("", f"sqlite:///{tmp_path / 'ett.db'}")):
        sealed = Keyring(secret_key, url).seal("text")
        session = Keyring(secret_key, url, purpose=b"sessions")
        assert session.unseal(session.seal("other")) == "other"
        with pytest.raises(CannotUnseal):
            session.unseal(sealed)
