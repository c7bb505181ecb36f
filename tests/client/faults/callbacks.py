"""Faults of frameworks: callbacks that are given odd trainers, states and records.

The frameworks are made up of the few names that our callbacks hang on, whose real ones are in no
environment together; the callbacks are the real ones.
"""

import importlib
import inspect
import logging
import random
import sys
import types
from collections.abc import Callable
from typing import Any

from ett_service.client.current import current
from ett_service.client.frameworks import adapter, torchtitan
from tests.client.faults.odd import Broken, Fault, Silent, no_name


def _raising(*_: object, **__: object) -> None:
    raise Silent


class _Framework:
    """Stands for whatever a callback inherits from or is called by."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    train = evaluate = predict = _save_checkpoint = _load_from_checkpoint = _raising
    save_checkpoint = load_checkpoint = backward = save_state = load_state = _raising
    _finalize_checkpoint = report = _raising


_NAMES: dict[str, tuple[str, ...]] = {
    "transformers": ("Trainer", "TrainerCallback"),
    "transformers.integrations": (),
    "lightning": (),
    "lightning.pytorch": ("Callback", "Trainer"),
    "lightning.pytorch.plugins": (),
    "lightning.pytorch.plugins.io": ("AsyncCheckpointIO",),
    "lightning.fabric": (),
    "lightning.fabric.plugins": (),
    "lightning.fabric.plugins.io": (),
    "lightning.fabric.plugins.io.torch_io": ("TorchCheckpointIO",),
    "accelerate": ("Accelerator",),
    "accelerate.tracking": ("GeneralTracker",),
    "orbax": (),
    "orbax.checkpoint": ("CheckpointManager",),
    "orbax.checkpoint.logging": ("AbstractLogger",),
    "ray": (),
    "ray.train": ("UserCallback",),
}


def _make_up() -> None:
    for name, classes in _NAMES.items():
        module: Any = types.ModuleType(name)
        for each in classes:
            setattr(module, each, type(each, (_Framework,), dict(vars(_Framework))))
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    integrations: Any = sys.modules["transformers.integrations"]
    integrations.integration_utils = types.SimpleNamespace(INTEGRATION_TO_CALLBACK={})
    train: Any = sys.modules["ray.train"]
    train.report, train.get_context = _raising, _raising
    train.CheckpointUploadMode = types.SimpleNamespace(SYNC="sync")


_make_up()
_MODULES = [
    importlib.import_module(f"ett_service.client.frameworks.{name}")
    for name in ("huggingface", "lightning", "fabric", "accelerate", "orbax", "ray")
]


def _callbacks() -> list[tuple[Callable[..., Any], int]]:
    """Every public method of a callback, with the number of its arguments."""
    made = [
        each()
        for module in _MODULES
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__ and each.__name__[0] != "_"
    ]
    methods = [
        getattr(callback, name)
        for callback in made
        for name, method in vars(type(callback)).items()
        if inspect.isfunction(method) and name[0] != "_"
    ]
    return [(method, len(inspect.signature(method).parameters)) for method in methods]


_METHODS = _callbacks()


class _Bland:
    """Has every attribute, and each is of no use."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __getattr__(self, name: str) -> Any:
        return self._value

    def __getitem__(self, name: str) -> Any:
        return self._value


def _odd(draw: random.Random) -> Any:
    return draw.choice((None, Broken(), _Bland(None), _Bland(Broken()), _Bland("x"), 7, [], {}))


def callback(draw: random.Random) -> None:
    """Call a callback with odd arguments, as a framework of another version would."""
    method, count = draw.choice(_METHODS)
    method(*(_odd(draw) for _ in range(draw.choice((count, count, count, 0, count + 3)))))


def broken_recorder(draw: random.Random) -> None:
    """Call the callbacks of a training in order on a recorder that cannot write."""
    recorder: Any = current.recorder
    lines, recorder.lines = recorder.lines, Broken()
    state, arguments = _Bland(7), _Bland("no")
    trainer: Any = sys.modules["ett_service.client.frameworks.huggingface"]
    callback = trainer.EttTrainerCallback()
    try:
        for name in ("on_train_begin", "on_step_begin", "on_step_end", "on_train_end"):
            getattr(callback, name)(arguments, state, None)
        recorder.write_steps()
        adapter.Framework("of faults").enter_loop_with_batch()
    finally:
        recorder.lines = lines
        recorder.steps.written = recorder.steps.last
    assert draw is not None


def measured(draw: random.Random) -> None:
    """Call a framework's own method that is measured; what it raises is its own, and passes."""
    owner: Any = draw.choice(
        (
            sys.modules["transformers"].Trainer,
            sys.modules["lightning.pytorch"].Trainer,
            sys.modules["accelerate"].Accelerator,
            sys.modules["orbax.checkpoint"].CheckpointManager,
        )
    )
    names = [name for name, each in vars(owner).items() if hasattr(each, "measured_by_ett")]
    try:
        getattr(owner, draw.choice(names))(*(_odd(draw) for _ in range(draw.randrange(4))))
    except Silent:
        return
    raise AssertionError("an error of the framework was swallowed")


def odd_method(draw: random.Random) -> None:
    """Measure what is no method: it shows as missing, or stays as it was."""
    owner = types.SimpleNamespace(save=draw.choice((None, 7)))
    assert adapter.measured(owner, draw.choice(("load", "save")), _odd) == "missing"


def ray_worker(draw: random.Random) -> None:
    """Record a training function where Ray tells nothing."""
    recorded: Any = sys.modules["ett_service.client.frameworks.ray"].recorded
    try:
        recorded(_raising, **{draw.choice(("gpus", "team")): Broken()})()
    except Silent:
        return
    raise AssertionError("the trainer's own error was swallowed")


def log_record(draw: random.Random) -> None:
    """Hand torchtitan's handler records of another shape."""
    spans = torchtitan.Spans()
    phases = (
        "step",
        "optim",
        "checkpoint_save",
        "fwd_bwd",
        "eval",
        "fetching_batch",
        "build_model",
    )
    for edge in ("start", "end"):
        record = logging.makeLogRecord({"step": draw.choice((None, "x", Broken(), -1, 2**80))})
        record.log_type_name = draw.choice((no_name(draw), f"{draw.choice(phases)}_{edge}"))
        spans.handle(record)


FAULTS = (
    Fault("a callback", callback, is_counted=False),
    Fault("a callback on a broken recorder", broken_recorder),
    Fault("a method that is measured", measured, is_counted=False),
    Fault("a method of another shape", odd_method, is_counted=False),
    Fault("a worker of Ray", ray_worker),
    Fault("a record of torchtitan", log_record, is_counted=False),
)
