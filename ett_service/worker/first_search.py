"""The first search over a project goes through its last days, as if it had been there.

Else a regression of last week would stay unknown in a project whose history was imported: the
latest run alone takes it for old, or finds it and waits for a second one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection

from ett_service.core.interval import DAY_US
from ett_service.core.regression_state import Rules, Thread
from ett_service.detection.evaluation import Evaluated, Found
from ett_service.detection.plan import Plan
from ett_service.detection.replay import retrace
from ett_service.storage import running
from ett_service.storage.detection_runs import History

MOST_RUNS = 28


class Run(NamedTuple):
    """What a run found."""

    at_us: int
    evaluated: Evaluated


def is_settled(conn: Connection, history: History, now_us: int, settle_us: int) -> bool:
    """Tell whether a project's history seems to be there: nothing old comes in any more.

    What came in longer than *settle_us* ago is in its ledgers, too, or fails to be for a day.
    """
    if now_us - history.received_us < settle_us:
        return False
    since_us = running.waiting(conn).since_us
    return since_us is None or not settle_us < now_us - since_us < DAY_US


def instants(at_us: int, every_us: int, recent_days: int, history: History) -> list[int]:
    """Return when runs would have been in the last days up to *at_us*, in ascending order.

    They are whole days apart, and each is later than the project's first job.
    """
    step_us = -(-every_us // DAY_US) * DAY_US
    count = min(MOST_RUNS, max(1, recent_days * DAY_US // step_us))
    found = [at_us - place * step_us for place in reversed(range(count))]
    return [one for one in found if one > history.began_us]


def search(
    conn: Connection, project_id: int, runs_at: Sequence[int], plan: Plan, rules: Rules
) -> list[Run]:
    """Run the detector at instants in ascending order, each knowing what those before it found."""
    replayed, _ = retrace(conn, project_id, runs_at, plan, rules)
    told = {(one.found_us, one.standing.thread): one.found for one in replayed.courses}
    runs = []
    for at_us, evaluated in zip(runs_at, replayed.runs, strict=True):
        found = tuple(told.get((at_us, _thread(one)), one) for one in evaluated.found)
        runs.append(Run(at_us, replace(evaluated, found=found)))
    return runs


def _thread(found: Found) -> Thread:
    return Thread(found.finding.fingerprint, found.finding.verdict)
