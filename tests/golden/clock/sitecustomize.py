"""Stops the clocks of every process that starts with this folder first on ``PYTHONPATH``.

The service has no setting for the time, and needs none. What it asks is the standard library's
clock, and that of SQLite; both stand still here, so that nothing of it has to be imported.
"""

import os
import sqlite3
import sqlite3.dbapi2
import time
from typing import Any

_NS = int(os.environ["GOLDEN_NOW_NS"])
#: The database's clock is a minute ahead: searches wait until what came in is a little old.
_JULIAN_DAY = 2440587.5 + (_NS / 1e9 + 60) / 86_400

_connect = sqlite3.connect


def _with_clock(*given: Any, **named: Any) -> Any:
    conn = _connect(*given, **named)
    conn.create_function("julianday", 1, lambda _instant: _JULIAN_DAY)
    return conn


vars(time).update(time=lambda: _NS / 1e9, time_ns=lambda: _NS)
for module in (sqlite3, sqlite3.dbapi2):
    vars(module)["connect"] = _with_clock
