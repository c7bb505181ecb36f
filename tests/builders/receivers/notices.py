"""Notices, ordinary and as hostile as names of jobs and labels allow."""

from dataclasses import replace

from hypothesis import strategies as st

from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Impact,
    Metric,
    NearMarker,
    Series,
    Side,
    Subject,
    Suspect,
    Verdict,
)
from ett_service.notifications.notice import Notice, Receiver, Status, WebhookFormat

ONSET = 1_762_380_000 * SECOND_US  # 2025-11-05 22:00
FIRED = ONSET + 11 * DAY_US
BEFORE = Side(140, 28, 486e6, 702e6, ONSET - 28 * DAY_US, ONSET)
AFTER = Side(68, 11, 804e6, 1010e6, ONSET, FIRED)

FINDING = Finding(
    series=Series(
        Subject(Metric.PHASE_SECONDS, "pt2_compile"), (("cluster", "eu-1"), ("model", "llm-70b"))
    ),
    verdict=Verdict.REGRESSION,
    ratio=1.65,
    low=1.48,
    high=1.84,
    p=3.1e-9,
    q=1e-7,
    onset_us=ONSET,
    before=BEFORE,
    after=AFTER,
    gates=(),
    impact=Impact(212.0, -0.6, 742.0, "USD"),
    mean_ratio=1.9,
)
ATTRIBUTION = Attribution(
    phase_shares={"pt2_compile": 0.88, "launcher_init": 0.12},
    cohort_shares={"cluster=eu-1,model=llm-70b": 1.0},
    suspects=(
        Suspect("image", "trainer:2.14", 0.97, 66, ONSET + 600 * SECOND_US),
        Suspect("compile_cache", "miss", 0.91, 61),
    ),
    markers=(NearMarker("d1", "deploy", "Trainer 2.14", ONSET - 300 * SECOND_US, 0.9),),
    examples=(("run-42", 3), ("run-57", 1), ("run-58", 0)),
    within_points=-0.58,
    mix_points=-0.02,
)
NOTICE = Notice(
    project_id=1,
    project="research",
    id="01JCXK7V4W",
    fingerprint=FINDING.fingerprint,
    version=3,
    status=Status.FIRING,
    severity="high",
    starts_us=FIRED,
    ends_us=None,
    finding=FINDING,
    attribution=ATTRIBUTION,
    public_url="https://ett.example",
)
RESOLVED = replace(NOTICE, status=Status.RESOLVED, ends_us=FIRED + 3 * DAY_US, version=4)


def receiver(kind: WebhookFormat) -> Receiver:
    """Return a receiver of this format."""
    return Receiver(1, "fleet-efficiency", "https://alerts.example/x", kind, ("R0UT1NGKEY",))


def of_metric(metric: Metric, before: float, after: float, ratio: float) -> Notice:
    """Return a notice of another metric than a phase."""
    finding = replace(
        FINDING,
        series=Series(Subject(metric), FINDING.series.cohort),
        ratio=ratio,
        low=ratio,
        high=ratio,
        before=replace(BEFORE, median=before, p90=None),
        after=replace(AFTER, median=after, p90=None),
        mean_ratio=None,
    )
    return replace(NOTICE, finding=finding)


def named(name: str, *, long: int = 200) -> Notice:
    """Return a notice in which every name that people choose is *name*."""
    cohort = tuple((dimension, name) for dimension in ("cluster", "model", "team", "kind", "size"))
    series = Series(Subject(Metric.STAGE_SECONDS, "launcher_init", name), cohort)
    attribution = replace(
        ATTRIBUTION,
        suspects=tuple(Suspect(name, name, 0.5, 3) for _ in range(9)),
        markers=tuple(NearMarker(name, "deploy", name, ONSET, 0.5) for _ in range(9)),
        examples=((name[:long], 1), (name[:long], 2)),
    )
    finding = replace(FINDING, series=series)
    return replace(
        NOTICE,
        project=name[:100],
        finding=finding,
        attribution=attribution,
        fingerprint=finding.fingerprint,
    )


_PIECES = (
    *("<!channel>", "<!here>", "@here", "@everyone", "<@U012AB3CD>", "<#C1>", "&lt;", "&amp;", "&"),
    *("*b*", "_i_", "~s~", "`c`", "```", "|", ">", "](https://evil.example)", "[x]", "${x}", "{{"),
    *("{{DATE(2017-02-14T06:08:00Z, SHORT)}}", "<at>all</at>", "\\", '"', "'", "\n", "\r", "\0"),
    *("\x1b[31m", "\u202e", "\u2066", "\u200b", "\ufeff", "\ud800", "é", "界", "🦜", "e\u0301"),
)
NAMES = st.one_of(
    st.text(min_size=1, max_size=256),
    st.lists(st.sampled_from(_PIECES), min_size=1, max_size=60).map("".join).map(lambda s: s[:256]),
    st.sampled_from(_PIECES).map(lambda piece: (piece * 256)[:256]),
)
