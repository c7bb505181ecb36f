"""Apache Otava's change points, of a program that has it and nothing of ours.

Otava holds numpy and a dozen clients back by its pins, of which its core needs none: it is
installed without them into a folder of its own, which only that program looks into.
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

from benchmarks.detectors.arrivals import Floats
from ett_service.core.errors import EttError

FOLDER = Path(sys.prefix) / "otava"
"""Where it is looked for: beside the packages of the environment that runs."""

DEFAULT_P = 0.001
_WORKER = Path(__file__).with_name("otava_worker.py")


class OtavaMissing(EttError):
    """There is no Otava to compare with."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A place from which on the values of a series have another mean."""

    index: int
    before: float
    after: float


class Otava:
    """A running program; a context manager.

    Raises:
        OtavaMissing: where it is not installed.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        if not (folder / "otava" / "analysis.py").exists():
            raise OtavaMissing(
                f"Apache Otava is not in {folder}",
                f"Install it: pip install --no-deps --target {folder} 'apache-otava>=0.8,<0.9'",
            )
        self._program = subprocess.Popen(  # noqa: S603 - our own file, by this interpreter
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
        asked = {"p": p, "series": [values.tolist() for values in series]}
        with suppress(BrokenPipeError):
            self._to.write(json.dumps(asked) + "\n")
            self._to.flush()
        answer = self._from.readline()
        if not answer:
            raise OtavaMissing("Apache Otava ended", "What it said is on standard error.")
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
