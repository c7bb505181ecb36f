"""What it takes to add a dimension, a category, a question about the fleet and a webhook format.

An addition is the files that it creates, its test among them, and the lines that it inserts into
others. ``tests/test_additions.py`` makes all of them in a copy of the code and runs their tests;
``benchmarks/structure.py`` prints how many files each touches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

VERSIONS = "migrations/versions"


@dataclass(frozen=True)
class Addition:
    """One addition; ``insertions`` are lines and what they go before, by file."""

    name: str
    goal: int  #: the most files that it may touch
    test: str
    files: Mapping[str, str]
    insertions: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    @property
    def touched(self) -> list[str]:
        """The files that it creates or changes."""
        return sorted({*self.files, *self.insertions})

    def make(self, root: Path) -> None:
        """Make it in a copy of the code."""
        latest = max(path.stem for path in (root / VERSIONS).glob("*.py"))
        for name, text in self.files.items():
            (root / name).write_text(text.lstrip("\n").replace("{latest}", latest), "utf-8")
        for name, pairs in self.insertions.items():
            text = (root / name).read_text("utf-8")
            for inserted, place in pairs:
                assert text.count(place) == 1, f"{name} has {text.count(place)} times {place!r}"
                text = text.replace(place, inserted + place)
            (root / name).write_text(text, "utf-8")


_MIGRATION = '''
"""An addition of a test."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{latest}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns."""
'''

_TEST = '''
"""An addition of a test."""

from tests.builders.servers.application import Service

DAY = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}


def ingest(service: Service, job: str = "job", phase: str = "train_loop", **facts: str) -> None:
    """Let a job spend an hour in one phase."""
    noon = {"job": job, "at": "2026-03-01T12:00:00Z"}
    service.ingest([
        noon | {"type": "job", "gpus": 8} | facts,
        noon | {"type": "attempt_started", "gpus": 8},
        noon | {"type": "phase_started", "phase": phase},
        noon | {"type": "attempt_ended", "at": "2026-03-01T13:00:00Z", "outcome": "completed"},
    ])


'''

DIMENSION = Addition(
    "dimension",
    goal=6,
    test="tests/api/fleet/test_framework.py",
    files={
        f"{VERSIONS}/20991230_framework.py": _MIGRATION.replace("{revision}", "20991230_framework")
        + """\
    op.add_column("job_ledger", sa.Column("framework", sa.Text()))
    names = "team model cluster hardware precision kind framework size code_version excluded other"
    with op.batch_alter_table("cohort", table_kwargs={"sqlite_strict": True}) as cohort:
        cohort.add_column(sa.Column("framework", sa.Text(), nullable=False, server_default=""))
        cohort.drop_constraint("uq_cohort", type_="unique")
        cohort.create_unique_constraint("uq_cohort", ["project_id", *names.split()])
""",
        "tests/api/fleet/test_framework.py": _TEST.replace(
            "from tests.", "from sqlalchemy import column, select, table\n\nfrom tests."
        )
        + """\
def test_the_fleet_is_grouped_and_filtered_by_it(service: Service) -> None:
    ingest(service, "first", framework="torchtitan")
    ingest(service, "second", framework="nemo")
    answer = service.get("/v1/fleet/summary", **DAY, group_by="framework")
    seconds = {group["group"]["framework"]: group["e2e_seconds"] for group in answer["groups"]}
    assert seconds == {"torchtitan": 3600, "nemo": 3600}
    answer = service.get("/v1/fleet/summary", **DAY, where="framework:nemo")
    assert answer["total"]["e2e_seconds"] == 3600


def test_the_views_have_it(service: Service) -> None:
    ingest(service, framework="torchtitan")
    with service.store.reading() as conn:
        names = conn.scalars(select(column("framework")).select_from(table("ett_v_rollup_hourly")))
        assert set(names) == {"torchtitan"}
        names = conn.scalars(select(column("framework")).select_from(table("ett_v_jobs")))
        assert set(names) == {"torchtitan"}


def test_a_job_shows_it_and_jobs_are_listed_by_it(service: Service) -> None:
    ingest(service, "first", phase="hardware_setup", framework="torchtitan")
    ingest(service, "second", phase="hardware_setup", framework="nemo")
    (listed,) = service.get("/v1/jobs", framework="nemo")["jobs"]
    assert (listed["job"], listed["framework"]) == ("second", "nemo")
    assert service.get("/v1/jobs/first")["framework"] == "torchtitan"
    top = service.get("/v1/fleet/jobs/top", **DAY)["jobs"]
    assert {job["framework"] for job in top} == {"torchtitan", "nemo"}
""",
    },
    insertions={
        "ett_service/core/dimensions.py": (
            ("    framework: str | None = None\n", "    labels: Mapping[str, str]"),
            ('    framework: str = ""\n', '    size: str = ""'),
            ('"framework", ', '"size", "code_version"\n]'),
        ),
        "ett_service/ingest/wire.py": (
            (
                "    framework: Word | None = None\n",
                "    labels: Labels | None = None\n\n\nclass SentA",
            ),
        ),
        "ett_service/client/members.py": (('    "framework",\n', ")  # fmt: skip\nFACTS"),),
    },
)

CATEGORY = Addition(
    "category",
    goal=6,
    test="tests/api/fleet/test_weight_sync.py",
    files={
        f"{VERSIONS}/20991231_weight_sync.py": _MIGRATION.replace(
            "{revision}", "20991231_weight_sync"
        )
        + """\
    INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    for table in ("contribution", "rollup_hourly", "rollup_daily"):
        for name in ("weight_sync_us", "weight_sync_weighted_us"):
            op.add_column(
                table, sa.Column(name, INT64, nullable=False, server_default="0")
            )
""",
        "tests/api/fleet/test_weight_sync.py": _TEST
        + """\
def test_its_time_is_counted_apart(service: Service) -> None:
    ingest(service, phase="weight_sync")
    total = service.get("/v1/fleet/summary", **DAY)["total"]
    assert total["categories"]["weight_sync"] == total["e2e_seconds"] == 3600
""",
    },
    insertions={
        "ett_service/core/words.py": (
            ("    WEIGHT_SYNC = auto()\n", "    SHUTDOWN = auto()\n\n\nSTATIONS"),
            ("Phase.WEIGHT_SYNC, ", "Phase.STALLED)"),
            ("    WEIGHT_SYNC = auto()\n", "    RESTART_WAIT = auto()"),
            ("        Category.WEIGHT_SYNC,\n", "        Category.REPEATED_TRAINING,\n"),
        ),
        "ett_service/charts/palette.py": (
            ('    Category.WEIGHT_SYNC: "#5c7a29",\n', "    Category.RESTART_WAIT:"),
        ),
        "ett_service/client/lines.py": (('    "weight_sync",\n', '    "shutdown",\n'),),
    },
)

QUESTION = Addition(
    "question about the fleet",
    goal=5,
    test="tests/fleet/test_idle.py",
    files={
        "ett_service/fleet/idle.py": '''
"""Idle: the share of the fleet's time in which nothing trained."""

from sqlalchemy import Connection

from ett_service.core.fleet.totals import Totals
from ett_service.fleet.scope import Scope, Window
from ett_service.storage.fleet import rollups


def idle_ratio(conn: Connection, scope: Scope, window: Window) -> float:
    """Return one minus ETT%."""
    by_place = rollups.totals(conn, scope.cohorts, (window.from_us, window.to_us))
    return 1 - sum(by_place.values(), Totals.ZERO).ett_ratio
''',
        "ett_service/api/fleet/idle.py": '''
"""The share of the fleet's time in which nothing trained."""

from fastapi import APIRouter, Depends

from ett_service.api.answers import Answer, Ratio
from ett_service.api.deps import Reader, ScopeParameter, WindowParameter, only_declared_parameters
from ett_service.api.problems import declared
from ett_service.fleet.idle import idle_ratio

router = APIRouter(
    prefix="/v1/fleet", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)


class IdleAnswer(Answer):
    """One minus ETT%."""

    idle_ratio: Ratio


@router.get(
    "/idle", operation_id="read_idle", response_model=IdleAnswer,
    responses=declared(401, 403, 404, 422, 503),
)
def read_idle(conn: Reader, scope: ScopeParameter, window: WindowParameter) -> IdleAnswer:
    """Return the share of the fleet's time in which nothing trained."""
    return IdleAnswer(idle_ratio=idle_ratio(conn, scope, window))
''',
        "ett_service/cli/fleet/idle.py": '''
"""``ett idle``: the share of the fleet's time in which nothing trained."""

from argparse import Namespace
from typing import Any

from ett_service.charts.units import percent
from ett_service.cli.arguments import scope, scope_query, server, window, window_query
from ett_service.cli.output import write_line
from ett_service.cli.remote import ask
from ett_service.cli.tables import Answer
from ett_service.cli.verb import Verb


def _idle(args: Namespace) -> Any:
    return ask(args, "/v1/fleet/idle", {**window_query(args), **scope_query(args)})


def _write(answer: Answer, _args: Namespace) -> None:
    write_line(percent(answer["idle_ratio"]))


VERB = Verb(options=(window, scope, server), run=_idle, write=_write)
''',
        "tests/fleet/test_idle.py": _TEST.replace(
            "from tests.",
            "import pytest\n\nfrom ett_service.cli.main import main\nfrom tests.",
        )
        + """\
def test_it_is_answered(service: Service) -> None:
    ingest(service, phase="hardware_setup")
    assert service.get("/v1/fleet/idle", **DAY) == {"idle_ratio": 1.0}


def test_it_has_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["idle", "--help"])
    assert "--from" in capsys.readouterr().out
""",
    },
    insertions={
        "ett_service/cli/main.py": (
            (
                '    "idle": Entry("show the time in which nothing trained", "fleet.idle"),\n',
                '    "explain": Entry(',
            ),
        ),
    },
)

FORMAT = Addition(
    "webhook format",
    goal=2,
    test="tests/notifications/formats/test_scratch.py",
    files={
        "ett_service/notifications/formats/scratch.py": '''
"""Scratch: a format of a test."""

from typing import Any

from ett_service.notifications.notice import Notice
from ett_service.notifications.notice import Receiver, Secret, WebhookFormat


def render(notice: Notice, receiver: Receiver, most: int) -> dict[str, Any]:
    return {"key": receiver.secrets[0], "id": notice.id}


FORMAT = WebhookFormat(
    name="scratch", render=render, secret=Secret.ROUTING_KEY, content_type="application/scratch"
)
''',
        "tests/notifications/formats/test_scratch.py": '''
"""A format of a test."""

import json

import pytest

from ett_service.api.app import create_app
from ett_service.cli.main import main
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import render
from ett_service.settings import Settings
from tests.builders.receivers.notices import NOTICE

NAMES = ["generic", "slack", "pagerduty", "teams", "alertmanager", "scratch"]
ROW = {"name": "a", "url": "https://a.example", "format": "scratch"}


def test_it_renders_a_notice() -> None:
    settings = Settings.model_validate({"receivers": [ROW | {"secret": "key"}]})
    (receiver,) = settings.configured_receivers
    assert json.loads(render(NOTICE, receiver)) == {"key": "key", "id": "01JCXK7V4W"}


def test_the_settings_know_which_secret_it_needs() -> None:
    with pytest.raises(ValueError, match="scratch needs its routing key as secret"):
        Settings.model_validate({"receivers": [ROW]})


def test_the_api_accepts_and_answers_it() -> None:
    document = create_app(None).openapi()
    body = document["paths"]["/v1/receivers"]["post"]["requestBody"]["content"]["application/json"]
    assert [*FORMATS] == NAMES
    assert body["schema"]["properties"]["format"]["enum"] == NAMES
    assert document["components"]["schemas"]["Format"]["enum"] == NAMES


def test_the_command_line_offers_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit, match="0"):
        main(["receivers", "add", "--help"])
    assert "alertmanager,scratch" in capsys.readouterr().out
''',
    },
)

ADDITIONS = (DIMENSION, CATEGORY, QUESTION, FORMAT)
