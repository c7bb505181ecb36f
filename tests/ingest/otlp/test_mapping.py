"""The mapping: what spans are by their names, in both spellings."""

import pytest

from ett_service.core.words import SLURM_OUTCOMES, Outcome, Phase
from ett_service.ingest.otlp.mapping import (
    ATTRIBUTES,
    CYCLE_OUTCOMES,
    SPANS,
    WANTED,
    Fact,
    as_word,
    meaning_of,
)

OWNING = {
    "dl.training.startup": Phase.LAUNCHER_INIT,
    "dl.training.iter_block": Phase.TRAIN_LOOP,
    "dl.training.iteration": Phase.TRAIN_LOOP,
    "dl.training.evaluate": Phase.EVALUATION,
    "dl.training.checkpoint.exposed_save": Phase.CHECKPOINT_BLOCKING,
    "nvrx.ftl.teardown": Phase.SHUTDOWN,
    "rl.ppo.step": Phase.TRAIN_LOOP,
    "rl.idle.refit_bubble": Phase.STALLED,
    "slurm.phase.queued": Phase.QUEUED,
}
PARTS = {
    "dl.training.startup.imports": (Phase.LAUNCHER_INIT, "imports"),
    "dl.training.checkpoint.load": (Phase.LAUNCHER_INIT, "checkpoint_restore"),
    "dl.training.checkpoint.save.io_write": (Phase.CHECKPOINT_BLOCKING, "io_write"),
    "dl.training.iteration.optimizer_step": (Phase.TRAIN_LOOP, "optimizer_step"),
    "rl.grpo.generation": (Phase.TRAIN_LOOP, "rollout"),
    "rl.idle.generation_limit_pause": (Phase.TRAIN_LOOP, "generation_limit_pause"),
    "slurm.phase.deferred": (Phase.QUEUED, "deferred"),
}


@pytest.mark.parametrize("prefix", ["", "nv."])
@pytest.mark.parametrize("name", OWNING)
def test_a_span_owns_its_time_as_a_phase(prefix: str, name: str) -> None:
    meaning = meaning_of(prefix + name)
    assert (meaning.phase, meaning.owns, meaning.mapped) == (OWNING[name], True, True)


@pytest.mark.parametrize("prefix", ["", "nv."])
@pytest.mark.parametrize("name", PARTS)
def test_a_span_is_a_stage_of_a_phase(prefix: str, name: str) -> None:
    meaning = meaning_of(prefix + name)
    assert ((meaning.phase, meaning.stage), meaning.owns) == (PARTS[name], False)


def test_an_unknown_span_is_a_stage_of_the_loop_by_its_whole_name() -> None:
    meaning = meaning_of("acme.load")
    assert (meaning.phase, meaning.stage) == (Phase.TRAIN_LOOP, "acme.load")
    assert (meaning.owns, meaning.mapped) == (False, False)


def test_every_row_can_apply() -> None:
    for pattern, row in SPANS:
        name = pattern.replace("*", "a")
        meaning = meaning_of(name)
        assert (meaning.phase, meaning.facts, meaning.owns) == (row.phase, row.facts, row.owns)


def test_slurm_rows_that_repeat_others_say_nothing() -> None:
    for name in ("slurm.job", "slurm.record.extern", "slurm.inter_attempt_gap"):
        meaning = meaning_of(name)
        assert (meaning.phase, meaning.facts, meaning.mapped) == (None, (), True)


def test_each_attribute_is_read_in_both_spellings() -> None:
    for names in ATTRIBUTES.values():
        for name in names:
            assert WANTED[name] == WANTED[f"nv.{name}"] == name


def test_outcomes_that_are_sent_are_those_of_the_wire() -> None:
    sent = {*CYCLE_OUTCOMES.values(), *SLURM_OUTCOMES.values()}
    assert sent.isdisjoint({Outcome.LOST, Outcome.RUNNING})


def test_a_step_is_read_of_passes_and_iterations() -> None:
    assert meaning_of("nv.dl.training.iter_block").facts == (Fact.STEP,)
    assert meaning_of("dl.training.checkpoint.save").facts == (Fact.SAVED,)


@pytest.mark.parametrize(
    ("name", "stage"),
    [("", "unnamed"), ("a\x00b\u202e", "a?b?"), ("x" * 300, "x" * 256), ("größe", "größe")],
)
def test_a_stage_can_be_shown(name: str, stage: str) -> None:
    assert as_word(name) == stage
