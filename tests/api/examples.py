"""The requests whose answers are the examples of the API's description.

``make openapi`` records them with a small fleet.
"""

import json
import re
from pathlib import Path
from typing import Any

from ett_service.core.intervals import HOUR_US
from ett_service.metrics.families import TextFormat
from ett_service.storage.jobs.listing import project_id
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import DeliveryState, Message
from ett_service.storage.schema import delivery
from ett_service.worker.metrics import MetricsThread
from tests.api.recording import (
    JSON,
    MOST_ITEMS,
    Recorded,
    Recording,
    questions_about,
    recording,
)
from tests.builders.clock import NOON
from tests.builders.compiles import compiling_job
from tests.builders.jobs import at, failing_job, wire_event, wire_span
from tests.builders.otlp import Sent, in_json
from tests.builders.regressions.stored import finding, fires
from tests.builders.weeks import fleet

FOLDER = Path(__file__).parents[2] / "ett_service" / "api" / "examples"
JOB = "/v1/jobs/llm-70b"
MONTH = "from=2026-01-26T00:00:00Z&to=2026-02-23T00:00:00Z"
WEEK = "from=2026-02-16T00:00:00Z&to=2026-02-23T00:00:00Z"
RUN = (
    "accelerators=64&mfu=0.42&flops=5.04e21&hardware=A100&precision=bf16&ett=0.9"
    "&discount=0.65&seconds_between_interruptions=21600&interval_seconds=1800"
)
MARKER = {
    "at": "2026-02-17T09:00:00Z",
    "kind": "deploy",
    "title": "Trainer 4.2",
    "labels": {"service": "trainer"},
}
VERDICT = {"origin": "infra", "cause": "network", "why": "The switch of rack 5 was replaced."}
OVERLAP = {"overlap_seconds": 86_400}
EXCLUSION = {
    "from": "2026-03-01T12:00:00Z",
    "to": "2026-03-01T12:10:00Z",
    "why": "Maintenance of cluster a.",
}
MUTE = {
    "cohort": {"cluster": "a"},
    "phase": "pt2_compile",
    "until": "2026-03-04T00:00:00Z",
    "why": "The compile cache is being moved.",
}
RECEIVER = {
    "name": "fleet-efficiency",
    "url": "https://alerts.example.com/ett",
    "format": "generic",
    "where": {"model": "llm-70b"},
}


REPORTS = [
    wire_event("heartbeat", 29, attempt=0, attributes={"data_wait_seconds": 14.4}),
    *(
        wire_event(
            "heartbeat",
            29,
            attempt=0,
            rank=rank,
            host=f"node-{rank}",
            attributes={
                "steps": 180,
                "loop_seconds": 1080.0,
                "data_wait_seconds": waited,
                "telemetry_seconds": 0.31,
                "hooks": {"compile": "ok", "data": "ok", "fsdp": "missing"},
            },
        )
        for rank, waited in enumerate((14.4, 162.0))
    ),
]
"""What the stream and two ranks of the first attempt report of themselves."""


STATUS = {
    "trainerStatus": {
        "lastUpdatedTime": "2026-03-01T12:00:30Z",
        "progressPercentage": 12,
        "estimatedRemainingSeconds": 220,
        "metrics": [{"name": "current_step", "value": "120"}],
    }
}
"""What a trainer tells Kubeflow of itself."""


def record() -> Recorded:
    """Record every operation once."""
    with recording() as recorder:
        _send(recorder)
        _correct(recorder)
        _read_jobs(recorder)
        _read_fleet(recorder)
        _find_regressions(recorder)
        _notify(recorder)
        _operate(recorder)
        _refuse(recorder)
        _advise_on_compiles(recorder)
        _confirm_a_finding(recorder)
        _export(recorder)
        return recorder.finished()


def _export(recorder: Recording) -> None:
    exported = in_json({"ett.job": "llm-7b"}, [Sent("nv.dl.training.startup", 0, 60)])
    recorder.ask("accept_traces", "POST /v1/traces", exported)
    recorder.ask("accept_trainer_status", "POST /v1/jobs/sft-7b/trainer-status", STATUS)


def _send(recorder: Recording) -> None:
    for events in fleet():
        batch = {"batch_id": "01K4", "history": True, "events": events}
        assert recorder.client.post("/v1/events", json=batch).json()["rejected"] == 0
    facts = {"hardware": "h100", "name": "LLM 70B, second try", "code_version": "4.1"}
    events = [*failing_job(**facts), *REPORTS]
    far_ahead = wire_event("heartbeat", 60 * 24 * 365)
    answer = recorder.ask(
        "accept_events",
        "POST /v1/events",
        {"batch_id": "01K5", "events": [*events, events[0], far_ahead]},
    )
    recorder.show(answer["store_epoch"], "6f1c2a")
    example = recorder.recorded["record"]["accept_events"]["request"]
    example[JSON] = {"batch_id": "01K5", "events": events[:MOST_ITEMS]}
    example["application/x-ndjson"] = json.dumps(events[0]) + "\n"
    recorder.settle()


def _correct(recorder: Recording) -> None:
    recorder.ask("create_marker", "POST /v1/markers", MARKER)
    recorder.ask("create_marker", "POST /v1/markers", MARKER)
    recorder.ask("list_markers", "GET /v1/markers", as_csv=True)
    recorder.ask("put_verdict", f"PUT {JOB}/attempts/0/verdict", VERDICT)
    recorder.ask("put_exclusion", f"PUT {JOB}/exclusion", EXCLUSION)
    recorder.ask("list_corrections", f"GET {JOB}/corrections", as_csv=True)
    recorder.ask("delete_job", "DELETE /v1/jobs/probe?dry_run=true")
    body = {"project": "research", "name": "cluster a", "scopes": ["write"]}
    key = recorder.ask("create_key", "POST /v1/keys", body)
    recorder.show(key["key"], "ett_9fQ2Lm1c…")
    recorder.show(key["prefix"], "ett_9fQ2Lm1c")
    recorder.ask("list_keys", "GET /v1/keys", as_csv=True)
    successor = recorder.ask("rotate_key", f"POST /v1/keys/{key['prefix']}/rotate", OVERLAP)
    recorder.show(successor["key"], "ett_4hXw8Tr0…")
    recorder.show(successor["prefix"], "ett_4hXw8Tr0")
    recorder.count_usage()
    recorder.ask("list_key_usage", "GET /v1/key-usage?window=week", as_csv=True)
    page = recorder.ask("list_audit_entries", "GET /v1/audit?limit=2", as_csv=True)
    recorder.show(page["next_cursor"], "WzE3NzI0NTI4MDkwMDAwMDAsIjJiOWY0ZSJd")
    for entry, shown in zip(page["entries"], ("8d0c61", "2b9f4e"), strict=True):
        recorder.show(entry["id"], shown)
    recorder.settle()


def _read_jobs(recorder: Recording) -> None:
    recorder.ask("list_jobs", "GET /v1/jobs?limit=2", as_csv=True)
    recorder.ask("read_job", f"GET {JOB}")
    recorder.ask("read_ledger", f"GET {JOB}/ledger", as_csv=True)
    recorder.ask("list_attempts", f"GET {JOB}/attempts", as_csv=True)
    recorder.ask("list_job_events", f"GET {JOB}/events?limit=2", as_csv=True)
    recorder.ask("read_stages", f"GET {JOB}/stages", as_csv=True)
    recorder.ask("read_ranks", f"GET {JOB}/ranks", as_csv=True)
    recorder.ask("read_trace", f"GET {JOB}/trace")
    recorder.ask("read_attempt_timeline", f"GET {JOB}/attempts/0")
    recorder.ask("list_checkpoints", f"GET {JOB}/checkpoints", as_csv=True)
    recorder.ask("read_productivity", "GET /v1/jobs/llm-0217/productivity?step=1d", as_csv=True)


def _read_fleet(recorder: Recording) -> None:
    fleet = "GET /v1/fleet"
    grouped = f"{WEEK}&group_by=team&where=team:pretraining"
    recorder.ask("read_fleet_summary", f"{fleet}/summary?{grouped}", as_csv=True)
    recorder.ask("read_fleet_series", f"{fleet}/series?{grouped}&step=1w", as_csv=True)
    recorder.ask("read_fleet_trend", f"{fleet}/trend?{WEEK}&where=team:pretraining", as_csv=True)
    recorder.ask("list_top_jobs", f"{fleet}/jobs/top?{WEEK}", as_csv=True)
    recorder.ask("explain_fleet", f"{fleet}/explain?{WEEK}", as_csv=True)
    recorder.ask("list_changes", f"{fleet}/changes?{WEEK}&kind=deploy", as_csv=True)
    recorder.ask("advise_job", "GET /v1/jobs/llm-0217/checkpoint-advice")
    recorder.ask("advise_fleet", f"{fleet}/checkpoint-advice?{grouped}", as_csv=True)
    recorder.ask(
        "project_fleet", f"{fleet}/projection?{MONTH}&accelerators=1024,16384", as_csv=True
    )
    recorder.ask("estimate_run", f"GET /v1/estimate?{RUN}")
    scenarios = ["halve infra failures", "cut pt2_compile by 40%"]
    query = "&".join(f"scenario={scenario}".replace("%", "%25") for scenario in scenarios)
    recorder.ask("read_what_if", f"GET /v1/what-if?{MONTH}&{query}", as_csv=True)
    recorder.ask("ask_what_if", f"POST /v1/what-if?{MONTH}", {"scenarios": scenarios})
    for operation, path in questions_about("fleet"):
        if operation not in recorder.recorded["fleet"] and "{" not in path:
            recorder.ask(operation, f"GET {path}?{WEEK}")


def _advise_on_compiles(recorder: Recording) -> None:
    """Ask about a job that compiles again, last: other answers are without it."""
    events = compiling_job("llm-compiled")
    batch = {"batch_id": "01K6", "history": True, "events": events}
    assert recorder.client.post("/v1/events", json=batch).json()["rejected"] == 0
    recorder.settle()
    recorder.ask("advise_job_on_compiles", "GET /v1/jobs/llm-compiled/compile-advice", as_csv=True)
    day = f"from={at(-12 * 60)}&to={at(12 * 60)}"
    recorder.ask(
        "advise_fleet_on_compiles",
        f"GET /v1/fleet/compile-advice?{day}&group_by=team&where=team:red",
        as_csv=True,
    )


def _confirm_a_finding(recorder: Recording) -> None:
    """Settle a finding by two jobs, last: other answers are without them."""
    day = 24 * 60
    runs = [(f"llm-old-{place}", -(12 + place) * day, 480 + 10 * place, "1") for place in range(4)]
    runs += [(f"llm-new-{place}", -(2 + place) * day, 800 + 10 * place, "2") for place in range(4)]
    runs += [("llm-trial-1", -60, 490, "1"), ("llm-trial-2", -60, 795, "2")]
    events = [event for run in runs for event in _compiled(*run)]
    batch = {"batch_id": "01K7", "history": True, "events": events}
    assert recorder.client.post("/v1/events", json=batch).json()["rejected"] == 0
    recorder.settle()
    query = "state=firing&where=model:llm-70b"
    rows = recorder.client.get(f"/v1/regressions?{query}").json()["regressions"]
    path = f"/v1/regressions/{rows[0]['id']}"
    recorder.ask("read_regression_experiment", f"GET {path}/experiment")
    jobs = {"base_job": "llm-trial-1", "job": "llm-trial-2"}
    recorder.ask("confirm_regression", f"POST {path}/confirm", jobs)
    recorder.ask("list_tuning", "GET /v1/regressions/tuning", as_csv=True)
    reset = {"metric": "phase_seconds", "why": "The storage was broken."}
    recorder.ask("reset_tuning", "POST /v1/regressions/tuning/reset", reset)


def _compiled(name: str, minute: int, seconds: int, version: str) -> list[dict[str, Any]]:
    middle, end = minute + seconds / 60, minute + seconds / 60 + 5
    facts = {"cluster": "a", "model": "llm-70b", "hardware": "H100", "code_version": version}
    return [
        wire_event("job", minute, job=name, gpus=8, **facts),
        wire_event("attempt_started", minute, job=name, gpus=8, code_version=version),
        wire_span("pt2_compile", minute, middle, job=name),
        wire_span("train_loop", middle, end, job=name),
        wire_event("attempt_ended", end, job=name, outcome="completed"),
    ]


def _find_regressions(recorder: Recording) -> None:
    with recorder.store.reading() as conn:
        owner = project_id(conn, "research")
    assert owner is not None
    first, second = fires(
        recorder.store, owner, finding(), finding(cohort=(("cluster", "b"), ("model", "llm-8b")))
    )
    path = f"/v1/regressions/{first}"
    recorder.ask(
        "triage_regression", f"POST {path}/triage", {"verdict": "real", "why": "The new image."}
    )
    recorder.ask("acknowledge_regression", f"POST {path}/acknowledge", {"why": "Being examined."})
    mute = recorder.ask(
        "mute_regression", f"POST {path}/mute", {k: MUTE[k] for k in ("until", "why")}
    )
    recorder.show(mute["id"], "Q7xk2LmZ0aBc")
    recorder.ask(
        "accept_regression",
        f"POST /v1/regressions/{second}/accept",
        {"why": "Larger batches are the new baseline."},
    )
    mute = recorder.ask("create_mute", "POST /v1/regressions/mutes", MUTE)
    recorder.show(mute["id"], "D3vt9RpW4sYe")
    recorder.ask("read_regression", f"GET {path}")
    recorder.ask("list_regression_values", f"GET {path}/values", as_csv=True)
    recorder.ask("list_regressions", "GET /v1/regressions?sort=-ratio", as_csv=True)
    recorder.ask("read_regression_causes", "GET /v1/regressions/causes", as_csv=True)
    recorder.ask("list_mutes", "GET /v1/regressions/mutes", as_csv=True)
    recorder.ask("read_detection_power", "GET /v1/regressions/power?limit=2", as_csv=True)
    sets = "base=cluster:north&base_to=2026-02-16T00:00:00Z"
    sets += "&with=cluster:north&with_from=2026-02-16T00:00:00Z"
    recorder.ask("compare_jobs", f"GET /v1/regressions/compare?{sets}", as_csv=True)


def _notify(recorder: Recording) -> None:
    path = "/v1/receivers/fleet-efficiency"
    receiver = recorder.ask("create_receiver", "POST /v1/receivers", RECEIVER)
    recorder.show(receiver["secret"], "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    with recorder.store.reading() as conn:
        owner = project_id(conn, "research") or 0
    recorder.store.write(
        lambda conn: deliveries.put(
            conn,
            owner,
            "6f1f0b2f3c1d9a77",
            3,
            [Message(owner, str(RECEIVER["name"]), "{}")],
            NOON + HOUR_US,
        )
    )
    recorder.ask("list_receivers", "GET /v1/receivers", as_csv=True)
    recorder.ask("test_receiver", f"POST {path}/test")
    rotated = recorder.ask("rotate_receiver", f"POST {path}/rotate")
    recorder.show(rotated["secret"], "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    recorder.ask("list_deliveries", f"GET {path}/deliveries", as_csv=True)
    dead = delivery.update().values(done=DeliveryState.DEAD.value)
    recorder.store.write(lambda conn: conn.execute(dead))
    recorder.ask("replay_deliveries", f"POST {path}/replay")


def _operate(recorder: Recording) -> None:
    MetricsThread(recorder.store, recorder.clock).publish()
    for form in TextFormat:
        recorder.ask("read_metrics", "GET /metrics", accept=form.value)
    page = recorder.client.get("/metrics", headers={"Accept": TextFormat.OPENMETRICS.value}).text
    exemplar = re.search('attempt_id="([^"]+)"', page)
    assert exemplar is not None
    recorder.ask("read_attempt", f"GET /v1/attempts/{exemplar[1]}")
    recorder.ask("read_health", "GET /healthz")
    for alive in (True, False):
        recorder.switch.alive = alive
        recorder.ask("read_readiness", "GET /readyz")


def _refuse(recorder: Recording) -> None:
    request_id = {"X-Request-Id": "5f0c2c1e9d4b4b3c8a6d1f2e3a4b5c6d"}
    answer = recorder.client.get("/v1/jobs/unknown", headers=request_id)
    recorder.recorded["health"]["problem"] = answer.json()


def main() -> None:
    """Write the examples, a file a noun."""
    for noun, examples in record().items():
        text = json.dumps(examples, indent=2, ensure_ascii=False)
        (FOLDER / f"{noun}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
