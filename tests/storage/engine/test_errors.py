"""Drivers' errors become this package's words, and only those about the database's state."""

import sqlite3

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from ett_service.storage.engine.driver import translate, translated
from ett_service.storage.engine.errors import StorageUnavailable


def of_sqlite(code: int, text: str) -> OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return OperationalError("SELECT secret", {"value": "secret"}, error)


@pytest.mark.parametrize(
    "code",
    [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY_SNAPSHOT],
)
def test_a_database_that_cannot_do_it_now_is_unavailable(code: int) -> None:
    original = of_sqlite(code, "it is so.")
    error = translate(original)

    assert isinstance(error, StorageUnavailable)
    assert error.__cause__ is original
    assert str(error) == "The database is unavailable: it is so."


def test_a_faulty_statement_stays_what_it_is() -> None:
    error = of_sqlite(sqlite3.SQLITE_ERROR, "no such table")

    assert translate(error) is error
    with pytest.raises(OperationalError), translated():
        raise error


def test_what_a_constraint_refuses_stays_what_it_is() -> None:
    error = IntegrityError("INSERT", {}, sqlite3.IntegrityError("UNIQUE"))

    assert translate(error) is error


def test_a_pool_without_a_free_connection_is_unavailable() -> None:
    with pytest.raises(StorageUnavailable), translated():
        raise NoFreeConnection


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), translated():
        raise KeyError
