"""The recorded requests: each route that reads, some that write, and the usual refusals.

``{regression}`` and its like are filled in; JOB names jobs of the demo's fleet and of ours.
"""

from collections.abc import Mapping, Sequence

DAYS = "from=2026-03-06T00:00:00Z&to=2026-03-09T00:00:00Z"
BASE = "base_from=2026-03-03T00:00:00Z&base_to=2026-03-06T00:00:00Z"
FAILED = "/v1/jobs/live-failed"
DEMO = "/v1/jobs/llm-405b-pretrain-03-06"

READ = (
    "/v1/jobs?limit=3",
    "/v1/jobs?project=default&sort=-e2e_seconds&limit=3",
    "/v1/jobs?project=default&cluster=birch&state=finished&limit=2&sort=ett_ratio",
    "/v1/jobs?state=running",
    "/v1/jobs?state=queued",
    "/v1/jobs?q=live-&format=csv",
    "/v1/jobs?q=live-&format=parquet",
    *(
        f"{job}{part}"
        for job in (FAILED, "/v1/jobs/live-odd", "/v1/jobs/live-hung", "/v1/jobs/live-preempted")
        for part in (
            "",
            "/ledger",
            "/attempts",
            "/stages",
            "/ranks",
            "/productivity",
            "/corrections",
        )
    ),
    "/v1/jobs/live-running",
    "/v1/jobs/live-lost",
    "/v1/jobs/live-queued",
    f"{FAILED}/events?limit=100",
    f"{FAILED}/trace",
    f"{FAILED}/attempts/1",
    f"{FAILED}/checkpoints",
    f"{FAILED}/checkpoint-advice",
    f"{FAILED}/checkpoint-advice?failures=infra",
    f"{FAILED}/compile-advice",
    f"{FAILED}/compile-advice?format=csv",
    f"{FAILED}/productivity?step=1h",
    *(
        f"{FAILED}/{part}?format=csv"
        for part in ("ledger", "attempts", "stages", "events", "productivity", "corrections")
    ),
    *(
        f"{DEMO}{part}?project=default"
        for part in (
            "",
            "/ledger",
            "/attempts",
            "/stages",
            "/ranks",
            "/trace",
            "/checkpoint-advice",
        )
    ),
    f"{DEMO}/events?project=default&limit=3",
    "/v1/attempts/{attempt}",
    *(
        f"/v1/fleet/summary?{DAYS}&{more}"
        for more in (
            "distributions=true",
            "group_by=team",
            "group_by=cluster,model&limit=3&sort=lost",
            "group_by=hardware,precision,kind,size",
            "group_by=project,code_version&limit=5",
            "where=cluster:birch&where=team:vision",
            "exclusions=included",
            "group_by=team&format=csv",
            "group_by=team&format=parquet",
        )
    ),
    f"/v1/fleet/series?{DAYS}&step=1d",
    f"/v1/fleet/series?{DAYS}&step=1d&group_by=cluster&distributions=true",
    f"/v1/fleet/series?{DAYS}&step=1h&where=cluster:larch",
    f"/v1/fleet/series?{DAYS}&step=1d&group_by=cluster&format=csv",
    f"/v1/fleet/trend?{DAYS}&step=1d",
    f"/v1/fleet/trend?{DAYS}&step=1d&where=cluster:larch&format=csv",
    *(
        f"/v1/fleet/jobs/top?{DAYS}&by={by}&limit=3"
        for by in ("lost", "lost_gpu", "cost", "category:repeated_training")
    ),
    f"/v1/fleet/jobs/top?{DAYS}&format=csv",
    f"/v1/fleet/explain?{DAYS}&{BASE}&limit=5",
    f"/v1/fleet/explain?{DAYS}&{BASE}&group_by=team,cluster&weighting=wall&limit=3",
    f"/v1/fleet/explain?{DAYS}&{BASE}&format=csv",
    f"/v1/fleet/explain?{DAYS}&{BASE}&group_by=&split=owner",
    f"/v1/fleet/changes?{DAYS}",
    f"/v1/fleet/changes?{DAYS}&kind=deploy&reach_days=3&format=csv",
    f"/v1/fleet/checkpoint-advice?{DAYS}&group_by=cluster",
    f"/v1/fleet/checkpoint-advice?{DAYS}&failures=infra&group_by=model&format=csv",
    f"/v1/fleet/compile-advice?{DAYS}&where=model:llm-live&group_by=team",
    f"/v1/fleet/compile-advice?{DAYS}&where=model:llm-live&format=csv",
    f"/v1/fleet/projection?{DAYS}",
    (
        f"/v1/fleet/projection?{DAYS}&accelerators=1024,8192&save_seconds=20&restart_seconds=600"
        "&interval_seconds=1800&failures_per_node_day=0.004&format=csv"
    ),
    "/v1/estimate?accelerators=512&mfu=0.4&parameters=7000000000&tokens=2000000000000&ett=0.9&price=3&peak_teraflops=989",
    f"/v1/estimate?accelerators=512&mfu=0.4&flops=1e23&hardware=H100&measured=true&{DAYS}",
    (
        "/v1/estimate?accelerators=64&mfu=0.4&flops=1e21&hardware=A100&discount=0.6"
        "&seconds_between_interruptions=7200&restart_seconds=300&save_seconds=20"
    ),
    (
        f"/v1/what-if?{DAYS}&scenario=cut+pt2_compile+by+40+%25&scenario=halve+infra+failures"
        "&scenario=publish+off+the+GPUs"
    ),
    "/v1/markers?project=default",
    "/v1/markers",
    "/v1/markers?project=default&kind=deploy&format=csv",
    "/v1/regressions",
    "/v1/regressions?state=firing&sort=-gpu_hours_per_week&limit=2",
    "/v1/regressions?verdict=incident&metric=phase_seconds&phase=launcher_init",
    "/v1/regressions?format=csv",
    "/v1/regressions/{regression}",
    "/v1/regressions/{regression}/values",
    "/v1/regressions/{regression}/experiment",
    "/v1/regressions/causes",
    "/v1/regressions/tuning",
    "/v1/regressions/{improvement}",
    "/v1/regressions/{resolved}",
    "/v1/regressions/power?limit=5",
    "/v1/regressions/power?where=model:llm-slow&metric=phase_seconds&phase=launcher_init",
    "/v1/regressions/power?limit=20&format=csv",
    "/v1/regressions/compare?base=code_version:4.1&with=code_version:4.2",
    (
        "/v1/regressions/compare?base=model:llm-slow&base_to=2026-03-02T00:00:00Z&with=model:llm-slow"
        "&with_from=2026-03-02T00:00:00Z&format=csv"
    ),
    "/v1/regressions/mutes",
    "/v1/regressions/mutes?over=true&format=csv",
    "/v1/keys",
    "/v1/keys?format=csv",
    "/v1/audit?action=tuning_reset",
    "/v1/receivers",
    "/v1/receivers?format=csv",
    "/v1/receivers/generic/deliveries",
    "/v1/receivers/slack/deliveries?state=sent&format=csv",
    "/healthz",
    "/readyz",
)

REFUSED: Sequence[tuple[str, str, object, Mapping[str, str]]] = (
    ("GET", "/v1/jobs/nobody", None, {}),
    ("GET", "/v1/nothing", None, {}),
    ("PATCH", "/v1/jobs", None, {}),
    ("GET", "/v1/jobs?limit=0", None, {}),
    ("GET", "/v1/jobs?sort=colour", None, {}),
    ("GET", "/v1/jobs?cursor=torn", None, {}),
    ("GET", "/v1/jobs?colour=red", None, {}),
    ("GET", "/v1/jobs?project=nobody", None, {}),
    ("GET", "/v1/attempts/0000000000000000-0", None, {}),
    ("GET", "/v1/fleet/summary?from=2026-03", None, {}),
    ("GET", "/v1/fleet/summary?from=2026-03-09T00:00:00Z&to=2026-03-02T00:00:00Z", None, {}),
    ("GET", "/v1/fleet/summary?group_by=colour", None, {}),
    ("GET", "/v1/fleet/summary?where=colour:red", None, {}),
    ("GET", f"/v1/what-if?{DAYS}&scenario=be+quick", None, {}),
    ("GET", "/v1/estimate?accelerators=8&mfu=0.4", None, {}),
    ("GET", "/v1/regressions/compare?base=colour:red", None, {}),
    ("GET", "/v1/regressions/01ARZ3NDEKTSV4RRFFQ69G5FAV", None, {}),
    ("GET", "/v1/receivers/nobody/deliveries", None, {}),
    ("POST", "/v1/events", b"{", {}),
    ("POST", "/v1/events", {"events": [{"type": "progress", "job": "a/b", "at": 5}]}, {}),
    ("POST", "/v1/events", {"events": [{"type": "dance", "job": "a", "at": "yesterday"}]}, {}),
    ("POST", "/v1/events", {"events": [{"type": "heartbeat", "job": "a", "colour": 1}]}, {}),
    ("POST", "/v1/traces", b"{", {}),
    ("POST", "/v1/traces", {"resourceSpans": 1}, {}),
    ("POST", "/v1/markers", {"at": "2026-03-01T00:00:00Z", "kind": "party", "title": "x"}, {}),
    ("POST", "/v1/what-if", {"scenarios": []}, {}),
    ("POST", "/v1/keys", {"project": "research", "name": "x", "scopes": ["everything"]}, {}),
    ("POST", "/v1/receivers", {"name": "inside", "url": "https://10.0.0.1/"}, {}),
    ("POST", "/v1/regressions/mutes", {"until": "2020-01-01T00:00:00Z", "why": "too late"}, {}),
    ("PUT", f"{FAILED}/attempts/7/verdict", {"origin": "infra", "cause": "host"}, {}),
    ("PUT", f"{FAILED}/attempts/0/verdict", {"cause": "gremlins"}, {}),
    ("DELETE", "/v1/jobs/live-running/exclusion", None, {}),
    ("DELETE", "/v1/keys/ett_unknown0", None, {}),
    ("GET", "/v1/jobs", None, {"Authorization": ""}),
    ("GET", "/v1/jobs", None, {"Authorization": "Bearer ett_nobody"}),
    ("POST", "/v1/events", b"x", {"Content-Type": "text/plain"}),
    ("POST", "/v1/events", b"x", {"Content-Encoding": "br"}),
    ("POST", "/v1/events", b"x", {"Content-Encoding": "gzip"}),
    ("POST", "/v1/events", b'{"type": 1}\n', {"Content-Type": "application/x-ndjson"}),
)
"""Method, path, body and headers of requests that no server may do."""
