"""What a source of frames can be asked."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import pandas as pd

from ett_service.core.errors import EttError

When = str | datetime | None
"""An RFC 3339 text or a datetime, both with their zone."""


class FrameError(EttError):
    """A frame cannot be had; the message says why, the hint what to try."""


class Source(Protocol):
    """Frames of one fleet. A frame without rows still has its columns."""

    def jobs(self, **where: str) -> pd.DataFrame:
        """Return a row a job; *where* as ``team="a"``, also ``model cluster hardware kind state``.

        Jobs come in the order of their names. A numeric summary of each job; its categories are
        in ``ledger``.
        """

    def attempts(self, job: str) -> pd.DataFrame:
        """Return a row an attempt of *job*, in order."""

    def ledger(self, job: str) -> pd.DataFrame:
        """Return a row a category: seconds, and their share of E2E, to which they sum."""

    def segments(self, job: str) -> pd.DataFrame:
        """Return the stretches that E2E of *job* is cut into, in order."""

    def rollups(
        self,
        *,
        step: str | None = "1d",
        group_by: Sequence[str] = (),
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
        exclusions: str = "left_out",
    ) -> pd.DataFrame:
        """Return the fleet's sums by group and *step*: ``1h``, ``1d``, ``1w``, None for one sum.

        *begin* and *end* are widened to full hours; the default is the last seven days. *where*
        holds conditions as ``team:a``; of several values of one dimension each will do.
        """

    def summary(
        self,
        *,
        group_by: Sequence[str] = (),
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
        exclusions: str = "left_out",
    ) -> pd.DataFrame:
        """Return the same for the window as a whole: a row a group."""

    def markers(self, *, begin: When = None, end: When = None) -> pd.DataFrame:
        """Return what was marked in the window, in order."""

    def regressions(self, *, begin: When = None, end: When = None, **where: str) -> pd.DataFrame:
        """Return a row a finding, those that were found first first.

        Of the window are those that set in before its end and were not over before its begin;
        *where* as ``verdict="regression"``, also ``state metric phase``. What was pending and not
        found again is there only with ``state="inactive"``.
        """

    def close(self) -> None:
        """Let go of what is open."""
