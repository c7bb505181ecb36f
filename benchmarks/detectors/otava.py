"""Change points by Apache Otava, which runs in a process of its own.

Otava pins an old numpy and a dozen clients, none of which its core needs. It is installed without
them into a folder of its own, and only that process imports from there.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ett_service.core.errors import EttError
from ett_service.detection.sample import Floats

FOLDER = Path(sys.prefix) / "otava"
"""Where it is by default: in the environment that runs."""

DEFAULT_P = 0.001
_WORKER = Path(__file__).with_name("otava_worker.py")


class OtavaMissing(EttError):
    """Otava is not installed, or has ended."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """An index of a series from which on its values have another mean."""

    index: int
    before: float
    after: float


class Otava:
    """A running Otava; a context manager.

    Raises:
        OtavaMissing: where it is not installed.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        if not (folder / "otava" / "analysis.py").exists():
            raise OtavaMissing(
                f"Apache Otava is not in {folder}",
                f"Install it: pip install --no-deps --target {folder} 'apache-otava>=0.8,<0.9'",
            )
        self._program = subprocess.Popen(  # noqa: S603 - our own file, with this interpreter
            [sys.executable, "-P", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(folder)},
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(BrokenPipeError):
            self._to.close()
        self._from.close()
        self._program.wait()

    def change_points(
        self, series: Sequence[Floats], p: float = DEFAULT_P
    ) -> list[list[ChangePoint]]:
        """Return the change points of each series, in order; *series* are without gaps."""
        request = {"p": p, "series": [values.tolist() for values in series]}
        with suppress(BrokenPipeError):
            self._to.write(json.dumps(request) + "\n")
            self._to.flush()
        answer = self._from.readline()
        if not answer:
            raise OtavaMissing("Apache Otava ended", "Its messages are on standard error.")
        return [
            [ChangePoint(index, before, after) for index, before, after, _ in points]
            for points in json.loads(answer)
        ]

    @property
    def _to(self) -> IO[str]:
        assert self._program.stdin is not None
        return self._program.stdin

    @property
    def _from(self) -> IO[str]:
        assert self._program.stdout is not None
        return self._program.stdout
