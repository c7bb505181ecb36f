"""Regressions, their triage and mutes, receivers and deliveries."""

from sqlalchemy import Column, ForeignKey, ForeignKeyConstraint, Index, Integer, Text, select

from ett_service.storage.schema.definition import Int64, table

#: Who alone may act, on the database's clock. ``epoch`` grows with every change of holder: a
#: write of a former one finds another number, and fails.
lease = table(
    "lease",
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", Int64, nullable=False),
    Column("expires_us", Int64, nullable=False),
)


def _of_a_project() -> Column[int]:
    return Column("project_id", Integer, ForeignKey("project.id"), primary_key=True)


#: One finding from pending to resolved, by the fingerprint of its series; within 72 h it is
#: reopened, later it is a new row. ``version`` grows each time it fires and each time it is
#: resolved, and ``told`` is the one that receivers were last notified of. ``finding`` and
#: ``attribution`` are those of ``core.regressions`` as JSON, ``cohort`` is a JSON object of
#: dimensions; ``baseline_from_us`` and ``baseline_to_us`` are frozen while it is open. ``fired`` is
#: the finding of the run since which it fires, ``ended`` why it is resolved, ``merged_into`` the id
#: of the finding that reports it, and ``notified_us`` when receivers were last notified.
regression = table(
    "regression",
    _of_a_project(),
    Column("id", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("cohort", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("told", Integer, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("quiet_runs", Integer, nullable=False),
    Column("onset_us", Int64, nullable=False),
    Column("pending_us", Int64, nullable=False),
    Column("firing_us", Int64),
    Column("resolved_us", Int64),
    Column("reopened", Integer, nullable=False),
    Column("last_run_us", Int64, nullable=False),
    Column("baseline_from_us", Int64, nullable=False),
    Column("baseline_to_us", Int64, nullable=False),
    Column("acknowledged_us", Int64),
    Column("acknowledged_by", Text),
    Column("triage", Text),
    Column("triage_by", Text),
    Column("triage_us", Int64),
    Column("finding", Text, nullable=False),
    Column("attribution", Text, nullable=False),
    Column("fired", Text),
    Column("ended", Text),
    Column("merged_into", Text),
    Column("notified_us", Int64),
    Index(None, "project_id", "fingerprint", "pending_us"),
    Index(None, "state", "project_id"),
)

#: Append-only: what happened to a finding, by whom and why.
regression_change = table(
    "regression_change",
    _of_a_project(),
    Column("regression_id", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at_us", Int64, nullable=False),
    Column("what", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("suspect", Text),
    ForeignKeyConstraint(
        ["project_id", "regression_id"], ["regression.project_id", "regression.id"]
    ),
)

#: Which regressions notify nobody, and until when. ``cohort`` is a JSON object of dimensions.
mute = table(
    "mute",
    _of_a_project(),
    Column("id", Text, primary_key=True),
    Column("cohort", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("from_us", Int64, nullable=False),
    Column("until_us", Int64, nullable=False),
    Column("why", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("made_us", Int64, nullable=False),
    Column("taken_back_by", Text),
    Column("taken_back_us", Int64),
)

#: What somebody accepted as the new normal: nothing before ``since_us`` is its baseline.
accepted_baseline = table(
    "accepted_baseline",
    _of_a_project(),
    Column("fingerprint", Text, primary_key=True),
    Column("since_us", Int64, nullable=False),
    Column("why", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("made_us", Int64, nullable=False),
)

#: Since when people's verdicts on a metric count for its smallest change.
tuning_reset = table(
    "tuning_reset",
    _of_a_project(),
    Column("metric", Text, primary_key=True),
    Column("since_us", Int64, nullable=False),
    Column("why", Text, nullable=False),
    Column("made_by", Text, nullable=False),
)

#: One run of the detector over a project. ``body`` tells as JSON what it looked at and what it
#: could not have seen.
detection_run = table(
    "detection_run",
    _of_a_project(),
    Column("at_us", Int64, primary_key=True, autoincrement=False),
    Column("made_us", Int64, nullable=False),
    Column("took_us", Int64, nullable=False),
    Column("epoch", Int64, nullable=False),
    Column("series", Integer, nullable=False),
    Column("body", Text, nullable=False),
)

WRITTEN_US = (
    select(detection_run.c.made_us)
    .where(
        detection_run.c.project_id == regression.c.project_id,
        detection_run.c.at_us == regression.c.firing_us,
    )
    .scalar_subquery()
    .label("written_us")
)
"""When the run was stored since which a regression fires."""

SEARCHED_US = (
    select(detection_run.c.made_us)
    .where(detection_run.c.project_id == regression.c.project_id)
    .order_by(detection_run.c.at_us)
    .limit(1)
    .scalar_subquery()
    .label("searched_us")
)
"""When the project of a regression was first searched."""

#: Receivers that a project has added, of regressions in ``cohort``, a JSON object of
#: dimensions. ``url`` and both secrets are encrypted; ``old_secret`` signs, too, until
#: ``old_until_us``.
receiver = table(
    "receiver",
    _of_a_project(),
    Column("name", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("cohort", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("old_secret", Text),
    Column("old_until_us", Int64),
    Column("made_by", Text, nullable=False),
    Column("made_us", Int64, nullable=False),
)

#: How a receiver does, whoever named it: ``owner`` is the project's number, 0 for the settings.
receiver_health = table(
    "receiver_health",
    Column("owner", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("open_until_us", Int64),
    Column("disabled_us", Int64),
    Column("disabled_why", Text),
    Column("busy_until_us", Int64),
)

#: The outbox. ``id`` is the webhook's; ``version`` that of the regression, of which a later one
#: supersedes it (``done`` = superseded). ``done`` is empty, or sent, dead or superseded.
delivery = table(
    "delivery",
    Column("id", Text, primary_key=True),
    Column("project_id", Integer, ForeignKey("project.id"), nullable=False),
    Column("owner", Integer, nullable=False),
    Column("receiver", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("made_us", Int64, nullable=False),
    Column("due_us", Int64, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("claimed_until_us", Int64),
    Column("done", Text, nullable=False),
    Column("done_us", Int64),
    Column("tried", Text, nullable=False),
    Index(None, "done", "due_us"),
    Index(None, "owner", "receiver", "done"),
)
