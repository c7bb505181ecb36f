"""Ray Train: ``TorchTrainer(recorded(train), run_config=...)`` with ``EttUserCallback()`` in it.

A worker is recorded by itself, under the rank that Ray gives it. The controller reports how workers
died that could not say so. The job is ``ETT_JOB``, else the name of the run.
"""

import functools
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import ray.train

from ett_service.client.current import current
from ett_service.client.exits import ending_of
from ett_service.client.frameworks.adapter import NOTHING, Framework, is_wanted, measured
from ett_service.client.guard import guarded
from ett_service.client.identity import identify
from ett_service.client.sending.spool import default_root
from ett_service.client.session import Session, Setup, end, flush

_framework = Framework("ray")

P = ParamSpec("P")
R = TypeVar("R")

_REPORTED = ("metrics", "checkpoint", "checkpoint_dir_name", "checkpoint_upload_mode")


def recorded(train: Callable[P, R], **facts: Any) -> Callable[P, R]:
    """Make a training function that is recorded. *facts* are what ``ett.init`` takes.

    Ray stops its workers without letting Python end, so their end is reported here.
    """

    @functools.wraps(train)
    def recording(*args: P.args, **kwargs: P.kwargs) -> R:
        _begin(facts)
        try:
            answer = train(*args, **kwargs)
        except BaseException as error:  # raised again: a SystemExit is an end to report, too
            _finish(error)
            raise
        _finish(None)
        return answer

    return recording


class EttUserCallback(ray.train.UserCallback):
    """Reports from the controller how workers died."""

    def __init__(self) -> None:
        self._session: Session | None = None  # made where the controller runs

    @guarded(otherwise=None)
    def after_exception(
        self, run_context: Any, worker_exceptions: Mapping[int, BaseException]
    ) -> None:
        """Report an end for each rank that raised or died."""
        self._session = self._session or _session_of(run_context)
        if self._session is None or self._session.recorder is None:
            return
        for rank, error in worker_exceptions.items():
            # What a training function raised comes wrapped.
            ending = ending_of(getattr(error, "_base_exc", error))
            event = {"type": "attempt_ended", "rank": rank, **ending}
            self._session.recorder.write(event | {"attributes": {"source": _framework.name}})


def _session_of(run_context: Any) -> Session | None:
    env = {
        "ETT_JOB": run_context.run_config.name,
        "ETT_LAUNCH": run_context.run_id,
        **os.environ,
    }
    identity = identify(env, None, os.uname().nodename)
    if identity is None or not is_wanted(env):
        return None
    session = Session()
    setup = Setup(identity, default_root(env), env.get("ETT_URL"), env.get("ETT_API_KEY"))
    session.begin(setup).over = True  # the controller is no rank: it gives no sign of life
    return session


@guarded(otherwise=None)
def _begin(facts: Mapping[str, Any]) -> None:
    context = ray.train.get_context()
    os.environ["ETT_RANK"] = str(context.get_world_rank())
    os.environ.setdefault("ETT_JOB", context.get_experiment_name())
    os.environ.setdefault("ETT_LAUNCH", _run_id())
    _framework.begin(facts, {"report": measured(ray.train, "report", _report)})


@guarded(otherwise="")
def _run_id() -> str:
    from ray.train.v2._internal.execution.context import (  # noqa: PLC0415 -- not public
        get_train_context,
    )

    return str(get_train_context().train_run_context.run_id)


@guarded(otherwise=None)
def _finish(error: BaseException | None) -> None:
    end(**(ending_of(error) if error is not None else {"outcome": "completed"}))
    flush()


def _report(*args: Any, **kwargs: Any) -> AbstractContextManager[Any]:
    """Measure a report that hands over a checkpoint; by default it waits for the upload."""
    given = dict(zip(_REPORTED, args, strict=False)) | kwargs
    last = current.steps.last
    if given.get("checkpoint") is None or last is None:
        return NOTHING
    save = _framework.checkpoint(last[1])
    sync = ray.train.CheckpointUploadMode.SYNC
    if given.get("checkpoint_upload_mode", sync) is not sync:
        save.later()  # when the upload is over, Ray tells nobody in this process
    return save
