"""Faults of a script that calls the client itself."""

import math
import random
import threading
from concurrent.futures import Future
from typing import Any

import pytest

import ett_service as ett
from ett_service.client.current import current
from tests.client.faults.odd import Broken, Fault, Reentrant, Silent, no_integer, no_name

api: Any = ett  # what is passed here is wrong on purpose


def _edge() -> None:
    with ett.phase("evaluation"):
        pass


def step(draw: random.Random) -> None:
    api.step(no_integer(draw))
    _edge()


def totals(draw: random.Random) -> None:
    name = draw.choice(("samples", "tokens", "flops"))
    api.step(draw.randrange(9), **{name: draw.choice((-1, "many", math.nan, [], Broken()))})
    _edge()


def surplus(draw: random.Random) -> None:
    call = draw.choice((api.step, api.phase, api.stage, api.checkpoint, api.train_loop, api.data))
    draw.choice((lambda: call(1, 2, 3, 4), lambda: call(epoch=Broken())))()


def missing(draw: random.Random) -> None:
    call = draw.choice((api.phase, api.stage, api.restored))
    call()


def phase(draw: random.Random) -> None:
    with api.phase(no_name(draw)):
        pass


def stage(draw: random.Random) -> None:
    name, of = no_name(draw), draw.choice((None, "evaluation", no_name(draw)))
    with ett.phase("evaluation"), api.stage(name, phase=of):
        pass


def bare_decorator(draw: random.Random) -> None:
    def doubled(x: int) -> int:
        return 2 * x

    assert draw.choice((api.phase, api.stage))(doubled)(4) == 8


def decorator(draw: random.Random) -> None:
    doubled = api.phase(no_name(draw))(lambda x: 2 * x)
    assert doubled(4) == 8


def checkpoint(draw: random.Random) -> None:
    size = draw.choice((None, no_integer(draw)))
    with api.checkpoint(no_integer(draw), size=size):
        pass


def future(draw: random.Random) -> None:
    class Liar(Future[None]):
        def exception(self, timeout: float | None = None) -> None:  # noqa: ARG002
            raise Silent

    liar: Any = Liar()
    with api.checkpoint(draw.randrange(9)) as save:
        save.durable_when(draw.choice((None, 7, Broken(), liar)))
    liar.set_result(None)
    if not save._deferred:  # noqa: SLF001 -- nothing was dropped, for it never began
        raise AssertionError
    save.durable_when(Broken())


def restored(draw: random.Random) -> None:
    draw.choice((lambda: api.restored(no_integer(draw)), lambda: api.restored(1, Broken())))()


def end(draw: random.Random) -> None:
    api.end(no_name(draw))


def ending(draw: random.Random) -> None:
    odd: Any = draw.choice((Broken(), math.nan, -(2**80), []))
    member = draw.choice(("reason", "exit_code", "signal", "exception", "message"))
    api.end("failed", **{member: odd})


def facts(draw: random.Random) -> None:
    name = draw.choice(("gpus", "labels", "team", "parameters", "submitted_at", "colour"))
    api.init(**{name: draw.choice((Broken(), -1, math.nan, [1], object()))})


def job(draw: random.Random) -> None:
    ett.end()
    api.init(draw.choice(("a/b", "..", "\n", "x" * 1000, 7, Broken(), [1])))
    ett.init("faults")


def flush(draw: random.Random) -> None:
    api.flush(*draw.choice((("soon",), (Broken(),), (1, 2), (None,))))


def generators(draw: random.Random) -> None:
    batches: Any = draw.choice((ett.data, lambda each: iter(ett.train_loop(each))))(range(9))
    for _ in range(draw.randrange(3)):
        next(batches)
    batches.close()


def wrong_order(draw: random.Random) -> None:
    for _ in range(draw.randrange(1, 5)):
        what: Any = draw.choice(
            (ett.phase("train_loop"), ett.train_loop(), ett.stage("odd"), ett.checkpoint(1))
        )
        draw.choice((what.__enter__, lambda what=what: what.__exit__(None, None, None)))()
    ett.phase("train_loop").close()
    ett.phase("checkpoint_blocking").close()


def trainers_own(draw: random.Random) -> None:
    """An error of the trainer inside a block is the trainer's, and passes."""
    block: Any = draw.choice(
        (ett.phase("evaluation"), ett.stage("a", phase="evaluation"), ett.train_loop(),
         ett.checkpoint(1), api.phase("nonsense"))
    )  # fmt: skip
    with pytest.raises(Silent), block:
        raise Silent


def threads(draw: random.Random) -> None:
    seeds = [draw.random() for _ in range(3)]
    errors: list[BaseException] = []

    def work(seed: float) -> None:
        own = random.Random(seed)
        try:
            for fault in (phase, step, checkpoint, wrong_order):
                fault(own)
        except BaseException as error:  # noqa: BLE001 -- raised again where it counts
            errors.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


def reentrant(_: random.Random) -> None:
    step: Any = Reentrant()
    ett.step(step)
    with ett.checkpoint(step):
        pass
    assert current.recorder is not None


FAULTS = (
    *(
        Fault(each.__name__, each)
        for each in (
            step, totals, surplus, missing, phase, stage, bare_decorator, decorator, checkpoint,
            future, restored, end, ending, facts, job, flush, threads, reentrant,
        )
    ),
    *(Fault(each.__name__, each, is_counted=False) for each in (
        generators, wrong_order, trainers_own,
    )),
)  # fmt: skip
