"""torchrun's command line, as users type it."""

import os
import sys

import pytest

from ett_service.client.starting.torchrun import command_of, is_torchrun, joins_nodes, rendezvous_id

TWO = ["torchrun", "--nnodes=2", "--rdzv-id", "llm"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["bin/torchrun", "train.py"], True),
        (["python", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "train.py"], False),
        ([], False),
    ],
)
def test_torchrun_is_known_by_its_name(command: list[str], *, expected: bool) -> None:
    assert is_torchrun(command) is expected


@pytest.mark.parametrize(
    ("command", "env", "expected"),
    [
        (TWO, {}, True),
        (["torchrun", "--nnodes", "1:2", "train.py"], {}, True),
        (["torchrun", "--nnodes=1", "train.py", "--nnodes=8"], {}, False),
        (["torchrun", "--standalone", "train.py"], {"PET_NNODES": "2"}, False),
        (["torchrun", "train.py"], {}, False),
        (["torchrun", "train.py"], {"PET_NNODES": "4"}, True),
        (["torchrun", "--nnodes"], {}, False),
    ],
)
def test_several_nodes_are_known_by_the_most_there_may_be(
    command: list[str], env: dict[str, str], *, expected: bool
) -> None:
    assert joins_nodes(command, env) is expected


@pytest.mark.parametrize(
    ("command", "env", "expected"),
    [
        (TWO, {}, "llm"),
        (["torchrun", "--rdzv_id=7"], {}, "7"),
        (["torchrun", "--rdzv-id=none"], {}, ""),
        (["torchrun"], {"PET_RDZV_ID": "p"}, "p"),
        (["torchrun"], {}, ""),
    ],
)
def test_a_rendezvous_is_named_by_an_option_or_the_environment(
    command: list[str], env: dict[str, str], expected: str
) -> None:
    assert rendezvous_id(command, env) == expected


def test_the_command_line_of_a_process_is_read() -> None:
    assert command_of(os.getpid())[0] == sys.orig_argv[0]
    assert command_of(2**31 - 1) == []
