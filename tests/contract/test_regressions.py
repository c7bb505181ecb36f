"""Regressions of a running service, each answer held to its description."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.contract.conftest import SEARCHED
from tests.contract.described import Json, Service

WHY: Json = {"why": "it is the image"}
MUTE: Json = {"until": "2020-01-01T00:00:00Z", "why": "a drill"}
OF = f"project={SEARCHED}"


def in_an_hour() -> str:
    """Return that instant, as the service reads it."""
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def test_regressions_are_answered_as_declared(served: Service) -> None:
    (row,) = served.read(f"/v1/regressions?{OF}&verdict=regression&where=cluster:a")["regressions"]
    regression, mutes = f"/v1/regressions/{row['id']}", "/v1/regressions/mutes"
    until = {**MUTE, "until": in_an_hour()}

    requests: list[tuple[str, str, Any, int]] = [
        ("GET", "/v1/regressions", None, 200),
        ("GET", "/v1/regressions?format=csv&state=firing&limit=1", None, 200),
        ("GET", "/v1/regressions?format=parquet&sort=-gpu_hours_per_week", None, 200),
        ("GET", "/v1/regressions?sort=luck", None, 422),
        ("GET", "/v1/regressions?where=colour:red", None, 422),
        ("GET", "/v1/regressions?project=nobody", None, 404),
        ("GET", regression, None, 200),
        ("GET", f"{regression}?project=default", None, 404),
        ("GET", "/v1/regressions/nothing", None, 404),
        ("GET", "/v1/regressions/power", None, 200),
        ("GET", "/v1/regressions/power?format=csv&where=model:rare", None, 200),
        ("POST", f"{regression}/triage?{OF}", {"verdict": "real", **WHY}, 200),
        ("POST", f"{regression}/triage?{OF}", {"verdict": "perhaps", **WHY}, 422),
        ("POST", f"{regression}/triage", {"verdict": "real", **WHY}, 404),
        ("POST", f"{regression}/acknowledge?{OF}", {}, 200),
        ("POST", f"{regression}/mute?{OF}", until, 201),
        ("POST", f"{regression}/mute?{OF}", MUTE, 422),
        ("POST", f"{regression}/accept?{OF}", WHY, 200),
        ("POST", f"{regression}/accept?{OF}", [], 422),
        ("POST", mutes, {**until, "cohort": {"cluster": "a"}}, 201),
        ("POST", mutes, {**until, "phase": "lunch"}, 422),
        ("GET", mutes, None, 200),
        ("GET", f"{mutes}?format=csv&over=true", None, 200),
        ("DELETE", f"{mutes}/nothing", None, 404),
    ]
    for method, path, body, status in requests:
        sent = {} if body is None else {"json": body}
        assert served.ask(method, path, **sent).status_code == status, (method, path)
    for mute in served.read(f"{mutes}?{OF}")["mutes"]:
        assert served.ask("DELETE", f"{mutes}/{mute['id']}?{OF}").status_code == 204


def test_each_refusal_of_a_body_is_declared(served: Service) -> None:
    for path in ("mutes", "nothing/mute", "nothing/triage", "nothing/accept"):
        served.refuses_bodies("POST", f"/v1/regressions/{path}")


def test_who_may_not_is_refused_as_declared(served: Service) -> None:
    with served.project("looker") as reader:
        assert reader.read("/v1/regressions")["regressions"] == []
        assert reader.ask("GET", f"/v1/regressions?{OF}").status_code == 404
        for path in ("mutes", "nothing/mute", "nothing/triage", "nothing/acknowledge"):
            answer = reader.ask("POST", f"/v1/regressions/{path}", json=WHY)
            assert answer.status_code == 403, path
