"""Lines as trainers write them: compile logs, output, agents' events, plain logs, tables."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from tests.builders.megatron import iteration, start_up
from tests.builders.torch_logs import FORWARD, metrics, phases, record


def _first(texts: Callable[[], Iterator[str]], count: int) -> Iterable[str]:
    lines = (line for text in texts() for line in text.splitlines())
    return islice(lines, count)


def trace_lines(count: int) -> Iterable[str]:
    """``TORCH_TRACE``: a compile of thirty phases, and ten graphs of a hundred lines."""
    return _first(_trace, count)


def output_lines(count: int) -> Iterable[str]:
    """Megatron-LM: a line of a step and one of its timers."""
    return _first(_output, count)


def agent_lines(count: int) -> Iterable[str]:
    """torchrun's agent behind a time: one line of twenty is a worker's state."""
    return _first(_agent, count)


def plain_lines(count: int) -> Iterable[str]:
    """Python's ``logging``: one line of twenty is a step."""
    return _first(_plain, count)


def job_lines(count: int) -> Iterable[str]:
    """A table of jobs, of which a row becomes five events."""
    return _first(_jobs, count)


def _trace() -> Iterator[str]:
    code = "\n".join(f"add_{n}: f32[4, 64] = torch.ops.aten.add(x, {n})" for n in range(100))
    number = 0
    while True:
        begin, compile_id = number * 1e6, f"{number}/0"
        edges = phases(
            *FORWARD, *map(str, range(30)), begin=begin, length=9e5, compile_id=compile_id
        )
        yield from edges
        for _ in range(10):
            yield record({"aot_forward_graph": {}, "has_payload": "0"}, code)
            yield record({"str": ["torch/nn/modules/module.py", number]})
        yield metrics(compile_id=compile_id, co_name="f", dynamo_config="x" * 8_000)
        number += 1


def _output() -> Iterator[str]:
    names = ("forward-compute", "forward-recv", "backward-compute", "backward-send", "optimizer")
    timers = "".join(f" | {name}-{n}: 1503.24" for name in names for n in range(4))
    rest = "global batch size:  1024 | loss scale: 12.0 | grad norm: 8.017 | number of skipped "
    yield from start_up()
    step = 0
    while True:
        step += 1
        yield f"{iteration(step, 900.5).rstrip()} {rest}iterations:   0 |\n"
        yield f"time (ms){timers}\n"


def _agent() -> Iterator[str]:
    place = '"metadata": {"hostname": "n1", "agent_restarts": 0, "duration_ms": 5.5}}'
    state = '"name": "torchelastic.worker.status.RENDEZVOUS", "source": "AGENT", "timestamp": 0'
    message = (
        "The node 'n1_30739_0' updated its keep-alive heartbeat time for the rendezvous 'none'."
    )
    place_of_node = '"hostname": "n1", "pid": 30739, "node_state": "RUNNING", "rank": null'
    name = '"name": "dynamic_rendezvous.py:_DistributedRendezvousOpExecutor._keep_alive"'
    other = (
        f'{{{name}, "run_id": "none", "message": "{message}", {place_of_node}, "local_id": 0}}\n'
    )
    number = 0
    while True:
        number += 1
        clock = f"2026-03-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        yield f"{clock} {{{state}, {place}\n" if number % 20 == 0 else f"{clock} {other}"


def _plain() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        clock = f"2026-03-01 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02},250"
        text = f"step {number} loss 2.31 tokens {number * 4096}"
        other = f"bucket {number} reduced in 0.25 s over 8 ranks, 1.5 GB"
        yield f"{clock} INFO trainer: {text if number % 20 == 0 else other}\n"


def _jobs() -> Iterator[str]:
    yield "job_name,job_id,nodes,gpus,start,first_step,end,state\n"
    number = 0
    while True:
        number += 1
        day, hour = number // 900 % 28 + 1, number // 60 % 15 + 8
        times = [
            f"2026-03-{day:02} {hour + more:02}:{number % 60:02}:{second:02}"
            for more, second in ((0, 7), (0, 42), (1, 3))
        ]
        yield f"llm-{number // 8},{number},8,64,{','.join(times)},COMPLETED\n"
