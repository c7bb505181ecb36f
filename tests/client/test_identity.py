"""The identity of a process, from the environments of torchrun, Slurm, Kubernetes and none."""

import pytest

from ett_service.client.identity import (
    Identity,
    allocated_at_us,
    gpus_of,
    hosts_of,
    identify,
    job_name,
    launch_of,
    submitted_at_us,
)

TORCHRUN = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "WORLD_SIZE": "4",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "TORCHELASTIC_RUN_ID": "llm-70b",
}
SLURM = {
    "SLURM_JOB_ID": "8041",
    "SLURM_RESTART_COUNT": "1",
    "SLURM_PROCID": "5",
    "SLURM_JOB_START_TIME": "1772160331",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_GPUS_ON_NODE": "8",
}
KUBERNETES = {"ETT_JOB": "llm", "ETT_LAUNCH": "0f6c-uid", "JOB_COMPLETION_INDEX": "2"}
ALONE = TORCHRUN | {"GROUP_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "none"}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (TORCHRUN, Identity("llm-70b", "llm-70b", 0, 2, 3, "h")),
        (SLURM, Identity("slurm-8041", "8041", 1, 0, 5, "h")),
        (SLURM | TORCHRUN, Identity("llm-70b", "8041", 1, 2, 3, "h")),
        (KUBERNETES, Identity("llm", "0f6c-uid", 0, 0, 2, "h")),
        ({"ETT_JOB": "j"}, Identity("j", "own", 0, 0, None, "h")),
        (ALONE | {"ETT_JOB": "j"}, Identity("j", "own", 0, 2, 3, "h")),
        (
            SLURM
            | {"ETT_JOB": "j", "ETT_LAUNCH": "l", "ETT_ATTEMPT": "7", "ETT_CYCLE": "8"}
            | {"ETT_RANK": "9"},
            Identity("j", "l", 7, 8, 9, "h"),
        ),
    ],
)
def test_each_launcher_identifies_the_process(env: dict[str, str], expected: Identity) -> None:
    assert identify(env, None, "h", "own") == expected


def test_a_job_named_in_the_code_wins() -> None:
    assert job_name({"ETT_JOB": "environment"}, "code") == "code"


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "x" * 201, "tab\t", "\u202egnp"])
def test_a_name_that_could_not_be_stored_is_no_name(name: str) -> None:
    assert job_name({}, name) is None


def test_a_name_is_composed() -> None:
    assert job_name({}, "cafe\u0301") == "caf\u00e9"


def test_ranks_of_several_nodes_invent_no_launch_of_their_own() -> None:
    several = ALONE | {"GROUP_WORLD_SIZE": "2"}
    assert launch_of(several, "own") == ""
    assert launch_of({"RANK": "0", "WORLD_SIZE": "2"}, "own") == ""


def test_a_variable_that_is_no_number_is_passed_over() -> None:
    env = {"ETT_JOB": "j", "RANK": "zero", "SLURM_PROCID": "-1", "JOB_COMPLETION_INDEX": "4"}
    identity = identify(env, None, "h")
    assert identity is not None
    assert identity.rank == 4


@pytest.mark.parametrize(("rank", "leads"), [(None, True), (0, True), (1, False)])
def test_rank_zero_or_a_process_without_rank_leads(rank: int | None, leads: bool) -> None:
    assert Identity("j", rank=rank).leads is leads


def test_the_allocation_comes_from_slurm() -> None:
    assert gpus_of(SLURM) == 32
    assert gpus_of(SLURM | {"ETT_GPUS": "0"}) == 0
    assert gpus_of({"SLURM_GPUS_ON_NODE": "8"}) is None
    assert hosts_of(SLURM) == 4
    assert allocated_at_us(SLURM) == 1_772_160_331_000_000
    assert allocated_at_us({}) is None


@pytest.mark.parametrize(
    ("text", "at_us"),
    [
        ("1772160331", 1_772_160_331_000_000),
        ("1772160331.5", 1_772_160_331_500_000),
        ("2026-02-27T02:45:31Z", 1_772_160_331_000_000),
        ("2026-02-27T03:45:31+01:00", 1_772_160_331_000_000),
        ("2026-02-27T02:45:31", None),  # of which zone?
        ("Unknown", None),
        ("0", None),
        ("9" * 400, None),
        ("nan", None),
        ("1e999", None),
        ("-5", None),
        ("", None),
    ],
)
def test_an_instant_is_seconds_or_has_a_zone(text: str, at_us: int | None) -> None:
    assert submitted_at_us({"ETT_SUBMITTED_AT": text}) == at_us
    assert allocated_at_us(SLURM | {"ETT_ALLOCATED_AT": text}) == (at_us or 1_772_160_331_000_000)
