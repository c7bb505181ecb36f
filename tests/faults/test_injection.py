"""Texts that would be code elsewhere, in every parameter of every list: an answer or a refusal."""

from typing import Any

import pytest

from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service
from tests.builders.tally import Tally

QUOTES = ("'", '"', "`", "\\", ";", "%", "_", "--", "/*", "\x00", "\u2019", "$$")
TAILS = (
    "",
    " OR 1=1",
    " OR 1=1 --",
    "; DROP TABLE job; --",
    " UNION SELECT 1,2,3 --",
    ") OR (1=1",
    "; SELECT pg_sleep(9) --",
    " AND 1=(SELECT COUNT(*) FROM api_key)",
    " ESCAPE 'x'",
    "||(SELECT 1)||",
    ":x",
    "%(x)s",
    "?",
    "{x}",
    "\n; DELETE FROM event",
    "COLLATE NOCASE",
    " LIMIT 0",
)
PAYLOADS = tuple(f"a{quote}{tail}" for quote in QUOTES for tail in TAILS)
SHORT = 3  #: payloads a list in the short form

LISTS = {
    "/v1/jobs": ("team", "state", "q", "sort", "label", "cursor", "limit", "model"),
    "/v1/jobs/llm-70b/events": ("cursor", "limit"),
    "/v1/markers": ("kind", "from", "to", "cursor"),
    "/v1/fleet/summary": ("group_by", "where", "from", "team"),
    "/v1/fleet/series": ("group_by", "where", "step", "from"),
    "/v1/fleet/jobs/top": ("by", "where", "from"),
    "/v1/fleet/explain": ("group_by", "where"),
    "/v1/regressions": ("state", "verdict", "phase", "cohort", "cursor"),
    "/v1/regressions/power": ("where", "cohort"),
    "/v1/keys": ("project",),
    "/v1/receivers": ("project",),
}


@ON_ONE_ENGINE
@pytest.mark.parametrize("count", [SHORT, pytest.param(None, marks=pytest.mark.long, id="long")])
def test_no_text_is_taken_for_code(service: Service, count: int | None, tally: Tally) -> None:
    assert len(PAYLOADS) >= 200
    draw = tally.draw
    service.ingest(failing_job())
    wrong: list[Any] = []
    for path, parameters in LISTS.items():
        before = service.client.get(path).text
        for payload in draw.sample(PAYLOADS, count or len(PAYLOADS)):
            parameter = draw.choice(parameters)
            answer = service.client.get(path, params={parameter: payload})
            tally.add(others=1)
            if answer.status_code not in (200, 404, 422):
                wrong.append((path, parameter, payload, answer.status_code))
            elif answer.status_code == 200 and "llm-70b" in answer.text:
                wrong.append((path, parameter, payload, "all rows"))
        if service.client.get(path).text != before and path != "/v1/keys":
            wrong.append((path, "changed"))
    assert wrong == []
