"""The table itself: its examples, its size, and its documentation."""

import re
from pathlib import Path
from time import process_time

import pytest

from ett_service.core.failures.rule import Rule
from ett_service.core.failures.rules import FOLLOWING_XIDS, RULES, XIDS
from ett_service.core.ledger.attempt_results import first_match
from ett_service.core.words import ORIGIN_OF_CAUSE, Cause
from tests.core.failure_examples import EXAMPLES

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "failure-rules.md"


def matched(rule: Rule, seen: str) -> str | None:
    """Name the rule that matches *seen* in the field that *rule* reads."""
    number = int(seen) if rule.looks_at in ("signal", "exit") else None
    verdict = first_match(
        seen if rule.looks_at == "text" else "",
        seen if rule.looks_at == "state" else "",
        None,
        number,
    )
    return None if verdict is None else RULES[verdict[0]].name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_matches_its_line_and_leaves_the_other_alone(rule: Rule) -> None:
    line, other = EXAMPLES[rule.name]

    assert matched(rule, line) == rule.name
    assert matched(rule, other) != rule.name


def test_every_rule_has_a_name_of_its_own_and_examples() -> None:
    names = [rule.name for rule in RULES]

    assert sorted(names) == sorted(EXAMPLES)
    assert len(set(names)) == len(names) >= 20


def test_rules_come_in_the_order_of_their_strength() -> None:
    strengths = [rule.strength for rule in RULES]

    assert strengths == sorted(strengths)


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (1, "exit_1"),
        (134, "aborted"),
        (137, "killed"),
        (139, "native_crash"),
        (143, "terminated"),
        (127, "command_not_run"),
        (-11, "native_crash"),
        (-15, "terminated"),
    ],
)
def test_exit_codes_are_read_as_the_signals_that_they_stand_for(code: int, rule: str) -> None:
    verdict = first_match("", "", None, code)

    assert verdict is not None
    assert (RULES[verdict[0]].name, verdict[1]) == (rule, f"exit_code={code}")


@pytest.mark.parametrize("code", [0, 3, 128, 200])
def test_other_exit_codes_say_nothing(code: int) -> None:
    assert first_match("", "", None, code) is None


@pytest.mark.parametrize(
    ("state", "rule"),
    [
        ("NODE_FAIL", "slurm_node_fail"),
        ("BOOT_FAIL", "slurm_node_fail"),
        ("OUT_OF_MEMORY", "slurm_out_of_memory"),
        ("OUT_OF_ME+", "slurm_out_of_memory"),
        ("TIMEOUT", "slurm_time_limit"),
        ("DEADLINE", "slurm_time_limit"),
        ("PREEMPTED", "slurm_preempted"),
        ("CANCELLED", "slurm_cancelled"),
        ("CANCELLED by 1000", "slurm_cancelled"),
        ("CANCELLED+", "slurm_cancelled"),
    ],
)
def test_slurm_states_are_matched_in_full_and_as_sacct_cuts_them(state: str, rule: str) -> None:
    verdict = first_match("", state, None, None)

    assert verdict is not None
    assert RULES[verdict[0]].name == rule


@pytest.mark.parametrize(
    ("xid", "rule"),
    [
        (13, "xid_application"),
        (31, "xid_application"),
        (48, "xid_memory"),
        (63, "xid_memory"),
        (64, "xid_memory"),
        (74, "xid_hardware"),
        (79, "xid_hardware"),
        (94, "xid_memory"),
        (95, "xid_memory"),
        (119, "xid_hardware"),
        (137, "xid_application"),
        (163, "xid_hardware"),
        (45, None),
        (154, None),
    ],
)
def test_each_xid_goes_to_who_can_mend_it(xid: int, rule: str | None) -> None:
    lines = (
        f"NVRM: Xid (PCI:0000:01:00): {xid}, pid=1",
        f"NVRM: Xid (PCI:0000:01:00 GPU-I:05): {xid}, pid=1",
        f"XID error {xid} on GPU 3",
        f"xid {xid}",
    )
    for line in lines:
        verdict = first_match(line, "", None, None)

        assert (None if verdict is None else RULES[verdict[0]].name) == rule


HOSTILE = (
    "x" * 7,
    "A.b_c.",
    "NIC ",
    "mlx5_",
    "NET/IB ",
    "Lustre: ",
    "MCE ",
    "Xid (",
    "row remap",
    "gradgrad",
    "loss is   ",
    "tasks 1,2-3,",
    "exit code       ",
    "Connection",
    "DataLoader worker",
    "nfs: server ",
    "module 'torch.",
)
"""Pieces of which many patterns begin to match and none ends."""


def search_seconds(length: int) -> float:
    """Return the processor time of all rules over hostile texts of this many characters."""
    texts = [(piece * length)[:length] for piece in HOSTILE]
    began = process_time()
    for text in texts:
        for rule in RULES:
            rule.regex.search(text)
    return process_time() - began


@pytest.mark.slow
def test_a_hostile_message_takes_time_in_proportion_to_its_length() -> None:
    search_seconds(1024)

    assert search_seconds(32_768) < 10 * search_seconds(8_192)


@pytest.mark.slow
def test_no_message_however_long_keeps_a_fold_waiting() -> None:
    for line, _ in EXAMPLES.values():
        crafted = (line[:6] * 16_384)[:65_536]
        began = process_time()
        first_match(crafted, "", None, None)

        assert process_time() - began < 4, line


@pytest.mark.parametrize(
    ("text", "state", "rule"),
    [
        (
            "Watchdog caught collective operation timeout\nCUDA error: uncorrectable ECC error",
            "",
            "gpu_ecc",
        ),
        (
            "remote process exited or there was a network error\nNET/IB : completion with error 12",
            "",
            "fabric_error",
        ),
        ("Watchdog caught collective operation timeout\nBroken pipe", "", "collective_timeout"),
        ("ChildFailedError: train.py FAILED\nexitcode  : -11 (pid: 81)", "", "native_crash_text"),
        ("ChildFailedError: train.py FAILED\nexitcode  : -9 (pid: 81)", "", "launcher_summary"),
        ("The node had condition: [DiskPressure].", "Evicted", "node_disk_pressure"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "", "peer_gone"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "", "connection_lost"),
        ("DataLoader worker is killed by signal: out of shared memory", "", "shared_memory_full"),
        ("ResourceExhaustedError: disk quota exceeded [Op:SaveV2]", "", "disk_quota"),
        ("JOB 8 CANCELLED DUE TO TIME LIMIT\nReceived SIGTERM: 15", "", "step_time_limit"),
    ],
)
def test_in_one_text_what_began_it_is_named_before_what_followed(
    text: str, state: str, rule: str
) -> None:
    verdict = first_match(text, state, None, None)

    assert verdict is not None
    assert RULES[verdict[0]].name == rule


def test_an_xid_stands_in_one_table_only() -> None:
    numbers = [number for table in (*XIDS.values(), FOLLOWING_XIDS) for number in table]

    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("cause", XIDS)
def test_an_xid_of_the_table_has_its_cause(cause: Cause) -> None:
    for number in XIDS[cause]:
        verdict = first_match(f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=812", "", None, None)

        assert verdict is not None
        assert RULES[verdict[0]].cause is cause


def test_an_xid_that_only_follows_leaves_the_word_to_the_one_before() -> None:
    for number in FOLLOWING_XIDS:
        line = f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=812"
        verdict = first_match(f"{line}, caused by previous Xid 149", "", None, None)

        assert first_match(line, "", None, None) is None
        assert verdict is not None
        assert RULES[verdict[0]].name == "xid_hardware"


def test_the_page_for_people_lists_the_xids() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| \d", line)]

    tables = [*((f"`{cause}`", table) for cause, table in XIDS.items()), ("none", FOLLOWING_XIDS)]
    assert rows == [
        f"| {number} | {cause} | {meaning} |"
        for cause, table in tables
        for number, meaning in table.items()
    ]


def test_the_page_for_people_shows_the_table_as_it_is() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]

    assert rows == [row(rule) for rule in RULES]


def row(rule: Rule) -> str:
    """The line of the page that stands for *rule*."""
    origin = rule.origin or ORIGIN_OF_CAUSE[rule.cause]
    example = EXAMPLES[rule.name][0].replace("|", "\\|")
    strength = rule.strength.name.lower()
    return (
        f"| `{rule.name}` | {rule.looks_at} | {strength} | {origin} | {rule.cause} | `{example}` |"
    )
