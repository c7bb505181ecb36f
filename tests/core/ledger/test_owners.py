"""The table of owners: it is total, it is as documented, and it knows the names that are sent."""

import re
from pathlib import Path

import pytest

from ett_service.core.ledger.owned_waits import (
    NEXT_CYCLE,
    OWNERS,
    PHASE_OF,
    REQUEUED,
    RESUBMITTED,
    STAGED,
    owner_of,
)
from ett_service.core.words import KNOWN_STAGES, Category, Owner, Phase
from ett_service.ingest.otlp.mapping import SPANS

PAGE = Path(__file__).parents[3] / "docs" / "definitions.md"


def test_every_phase_and_stage_has_an_owner() -> None:
    assert {owner_of(phase, "never heard of") for phase in (*Phase, None)} <= set(Owner)
    assert {owner_of(phase) for phase in (*Phase, None)} <= set(Owner)
    assert {rule.owner for rule in OWNERS} == set(Owner)
    assert set(PHASE_OF) == set(Category)


def test_the_page_of_definitions_has_the_table_row_by_row() -> None:
    section = PAGE.read_text("utf-8").partition("## Whose wait is it?")[2].partition("\n## ")[0]
    rows = [
        (*re.findall(r"`([^`]+)`|(none)", phases), *re.findall(r"`([^`]+)`", rest))
        for phases, rest in re.findall(r"^\| (`[^|]*|none) (\|.*)$", section, re.MULTILINE)
    ]
    assert rows == [
        (
            *((phase or "", "" if phase else "none") for phase in rule.phases),
            *rule.stages,
            rule.owner,
        )
        for rule in OWNERS
    ]


@pytest.mark.parametrize(
    ("phase", "stage", "owner"),
    [
        (Phase.QUEUED, "", Owner.SCHEDULER),
        (Phase.QUEUED, "quota_wait", Owner.QUOTA),
        (Phase.QUEUED, "QOSMaxGRESPerUser", Owner.QUOTA),
        (Phase.QUEUED, "AssocGrpGRES", Owner.QUOTA),
        (Phase.QUEUED, "AssocMaxJobsLimit", Owner.QUOTA),
        (Phase.QUEUED, "MaxJobsPerAccount", Owner.QUOTA),
        (Phase.QUEUED, "Priority", Owner.SCHEDULER),
        (Phase.QUEUED, "Resources", Owner.SCHEDULER),
        (Phase.QUEUED, "ReqNodeNotAvail", Owner.NODE),
        (Phase.QUEUED, "ReqNodeNotAvail, Reserved for maintenance", Owner.NODE),
        (Phase.QUEUED, "PartitionNodeLimit", Owner.USER),
        (Phase.QUEUED, "Dependency", Owner.USER),
        (Phase.QUEUED, "deferred", Owner.USER),
        (Phase.QUEUED, "JobHeldUser", Owner.USER),
        (Phase.QUEUED, "JobHeldAdmin", Owner.SCHEDULER),
        (Phase.QUEUED, "quota", Owner.QUOTA),
        (Phase.QUEUED, "suspended", Owner.USER),
        (Phase.SCHEDULING, "", Owner.SCHEDULER),
        (Phase.SCHEDULING, "admission_checks", Owner.SCHEDULER),
        (Phase.HARDWARE_SETUP, "", Owner.NODE),
        (Phase.HARDWARE_SETUP, "node_start", Owner.NODE),
        (Phase.HARDWARE_SETUP, "image_pull", Owner.IMAGE),
        (Phase.HARDWARE_SETUP, "Image-Pull", Owner.IMAGE),
        (Phase.HARDWARE_SETUP, "init_containers", Owner.USER),
        (Phase.HARDWARE_SETUP, "network_and_volumes", Owner.NETWORK),
        (Phase.LAUNCHER_INIT, "rendezvous", Owner.NETWORK),
        (Phase.LAUNCHER_INIT, "network_check", Owner.NETWORK),
        (Phase.LAUNCHER_INIT, "pre_check", Owner.NODE),
        (Phase.LAUNCHER_INIT, "imports", Owner.FRAMEWORK),
        (Phase.LAUNCHER_INIT, "get_first_batch_data", Owner.USER),
        (Phase.PT2_COMPILE, "inductor", Owner.FRAMEWORK),
        (Phase.SHUTDOWN, "cleanup_tail", Owner.NODE),
        (None, "", Owner.USER),
        (None, NEXT_CYCLE, Owner.FRAMEWORK),
        (None, REQUEUED, Owner.SCHEDULER),
        (None, RESUBMITTED, Owner.USER),
    ],
)
def test_a_name_that_producers_send_has_the_owner_that_it_is_meant_for(
    phase: Phase | None, stage: str, owner: Owner
) -> None:
    assert owner_of(phase, stage) is owner


def test_a_rule_that_names_a_stage_of_the_client_or_of_opentelemetry_names_it_right() -> None:
    sent = {stage for stages in KNOWN_STAGES.values() for stage in stages}
    sent |= {meaning.stage for _, meaning in SPANS if meaning.stage}
    ours = (Phase.LAUNCHER_INIT, Phase.SHUTDOWN)
    named = {
        stage
        for rule in OWNERS
        for stage in rule.stages
        if rule.phases[0] in ours and "*" not in stage
    }
    assert named <= sent


def test_phases_are_cut_by_stage_where_that_can_make_a_difference() -> None:
    assert {Phase.QUEUED, Phase.HARDWARE_SETUP, Phase.LAUNCHER_INIT} < STAGED
    assert Phase.PT2_COMPILE not in STAGED
