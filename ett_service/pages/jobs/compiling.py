"""What a job compiled: time by stage, what the cache missed, and why it compiled again."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.bars import Bar, stacked_bars
from ett_service.charts.units import count, duration, percent
from ett_service.core.words import Category
from ett_service.pages.ask import Answer, Question
from ett_service.pages.jobs.events import OWN_TIME, WHOLE
from ett_service.pages.links import attempt_page, dashboard, job_page, quoted
from ett_service.pages.panel import Cell, Fact, Panel, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.report.inputs import share
from ett_service.report.stages import own_seconds

ROUTER = router()

_HOUR = 3600.0
_MOST_BARS = 30


@ROUTER.get("/jobs/{job}/compile")
async def show_compiles(
    request: Request,
    job: str,
    session: SignedIn,
    ask: Asking,
    project: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show what a job compiled."""
    path, scope = f"/v1/jobs/{quoted(job)}", {"project": project}
    staged = Question(f"{path}/stages", scope)
    advised = Question(f"{path}/compile-advice", scope)
    listed = Question(f"{path}/attempts", scope)
    stages, advice, answer = await ask.all(staged, advised, listed)
    caches = {each["number"]: each["compile_cache"] for each in answer["attempts"]}
    of_compile = [each for each in stages["stages"] if each["phase"] == Category.PT2_COMPILE]
    return page(
        request,
        "sub.html",
        session,
        title="Compile",
        sentence=_sentence(of_compile, advice),
        up=Cell(job, href=job_page(job, project)),
        facts=[*_facts(of_compile, advice), *_cache_facts(of_compile, caches)],
        panels=[
            _stages(of_compile, staged),
            by_attempt(of_compile, caches, (job, project), staged),
            *_advice(advice, advised),
        ],
        grafana=dashboard(request, "ett-sql-job", project=project or session.key.project, job=job),
    )


def _advice(advice: Answer, question: Question) -> list[Panel]:
    """Return what would save time; a client that reports no single compile leaves it unknown."""
    if not advice["compiles"]:
        missing = (
            "Single compiles were not reported, so there is no advice. The client for PyTorch "
            "reports them; `ett import torch-trace` reads them from the traces of a past run."
        )
        return [Panel("advice", "What would save time", before=(missing,), question=question)]
    return [
        _recompiles(advice, question),
        _varying(advice, question),
        _costly("uncached", "The cache missed what an earlier attempt compiled", advice, question),
        _costly("autotuned", "Longest autotuning", advice, question),
    ]


def _sentence(stages: Sequence[Answer], advice: Answer) -> str:
    whole = sum(each["inclusive_seconds"] for each in stages if each["stage"] is None)
    if not whole and not advice["compiles"]:
        return "This job reported no compile."
    parts = [f"{duration(whole)} went into compiles, recompiles included"]
    if advice["recompiles"]:
        named = "recompile" if advice["recompiles"] == 1 else "recompiles"
        took = duration(advice["recompile_seconds"])
        parts.append(f"{count(advice['recompiles'])} {named} took {took}")
    if advice["uncached_seconds"]:
        parts.append(f"a shared cache would have saved {duration(advice['uncached_seconds'])}")
    return "; ".join(parts) + "."


def _facts(stages: Sequence[Answer], advice: Answer) -> list[Fact]:
    starts = [each for each in stages if each["stage"] is None]
    whole = Fact(
        "in compiles",
        duration(sum(each["inclusive_seconds"] for each in starts)),
        f"in {count(len(starts))} attempts",
    )
    if not advice["compiles"]:
        return [whole]
    return [
        whole,
        Fact("compiles", count(advice["compiles"]), "forward and backward are one each"),
        Fact("recompiles", count(advice["recompiles"]), duration(advice["recompile_seconds"])),
        Fact("cache could save", duration(advice["uncached_seconds"]), "of later starts"),
        Fact("dynamic could save", duration(advice["dynamic_seconds"]), "by the setting below"),
        Fact("autotuning", duration(advice["autotune_seconds"]), "wall time on the lead rank"),
    ]


def _stages(stages: Sequence[Answer], question: Question) -> Panel:
    """Show where compiles spent their time, over all attempts."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for each, own in zip(stages, own_seconds(stages), strict=True):
        amounts = sums[each["stage"] or WHOLE]
        for place, amount in enumerate((each["spans"], each["inclusive_seconds"], own)):
            amounts[place] += amount
    whole = sum(own for _, _, own in sums.values())
    return Panel(
        "stages",
        "Time by stage",
        before=() if len(sums) > 1 else ("Its client reported no stages of compiles.",),
        table=table(
            "stage|#spans|#inclusive|#own|#own, of all",
            (
                (name, count(int(spans)), duration(inclusive), duration(own), _of(own, whole))
                for name, (spans, inclusive, own) in sums.items()
            ),
        ),
        after=(
            "Sums over all attempts, of the lead rank.",
            OWN_TIME,
            "Spans inside of the loop count, too: the ledger has those as recompile.",
        ),
        question=question,
    )


def _of(seconds: float, whole: float) -> str:
    return percent(share(seconds, whole)) if whole else "-"


_CACHES: Mapping[str | None, str] = {
    "warm": "hit",
    "cold": "missed",
    "mixed": "hit and missed",
    "disabled": "off",
    None: "unknown",
}
"""What an attempt's compiles found in the cache, by the word of the API."""


def _cache_facts(stages: Sequence[Answer], caches: Mapping[int, str | None]) -> list[Fact]:
    """Count the attempts that found what they compile in the cache, where any says so."""
    found = Counter(_CACHES[caches[each["number"]]] for each in stages if each["stage"] is None)
    if set(found) <= {"unknown"}:
        return []
    rest = [f"{count(found[name])} {name}" for name in _CACHES.values() if name in found]
    return [Fact("attempts with a warm cache", count(found["hit"]), ", ".join(rest))]


def by_attempt(
    stages: Sequence[Answer],
    caches: Mapping[int, str | None],
    of: tuple[str, str],
    question: Question,
) -> Panel:
    """Show what each attempt *of* a job and project compiled, and whether its cache was warm."""
    job, project = of
    starts = [each for each in stages if each["stage"] is None]
    bars = [
        Bar(
            f"attempt {each['number']}",
            {Category.PT2_COMPILE: each["inclusive_seconds"] / _HOUR},
            _with_cache(duration(each["inclusive_seconds"]), caches[each["number"]]),
            attempt_page(job, each["number"], project),
        )
        for each in starts[:_MOST_BARS]
    ]
    return Panel(
        "attempts",
        "By attempt",
        chart=stacked_bars(
            "attempts",
            "Time in pt2_compile by attempt",
            bars,
            full=max(bar.total for bar in bars),
        )
        if len(bars) > 1
        else None,
        table=table(
            "attempt|#in compiles|cache|#skew of ranks",
            (
                (
                    Cell(str(each["number"]), href=attempt_page(job, each["number"], project)),
                    duration(each["inclusive_seconds"]),
                    _CACHES[caches[each["number"]]],
                    duration(each["skew_seconds"]),
                )
                for each in starts
            ),
        ),
        after=_not_drawn(len(starts)),
        question=question,
    )


def _with_cache(length: str, cache: str | None) -> str:
    return length if cache is None else f"{length}, cache {_CACHES[cache]}"


def _not_drawn(attempts: int) -> tuple[str, ...]:
    if attempts <= _MOST_BARS:
        return ()
    return (f"Drawn are the first {_MOST_BARS} of {count(attempts)} attempts; the table has all.",)


def _recompiles(advice: Answer, question: Question) -> Panel:
    rows = [
        (
            each["kind"].replace("_", " "),
            count(each["recompiles"]),
            duration(each["seconds"]),
            ", ".join(each["functions"]),
            each["example"],
            each["hint"] or "-",
        )
        for each in advice["others"]
    ]
    return Panel(
        "reasons",
        "Why it compiled again",
        before=() if rows else ("No recompile that a dynamic shape would not stop.",),
        table=table("reason|#recompiles|#took|functions|as PyTorch says it|what may stop it", rows),
        question=question.of("others"),
        is_wide=True,
    )


def _varying(advice: Answer, question: Question) -> Panel:
    rows = [
        (
            each["source"],
            ", ".join(map(str, each["dims"])) or "-",
            count(each["recompiles"]),
            duration(each["seconds"]),
            ", ".join(each["functions"]),
            each["mark_dynamic"] or "-",
        )
        for each in advice["sources"]
    ]
    setting = advice["setting"]
    return Panel(
        "varying",
        "What varied and may be dynamic",
        before=(f"Set `TORCH_COMPILE_DYNAMIC_SOURCES={setting}`",) if setting else ("Nothing.",),
        table=table("source|dimensions|#recompiles|#took|functions|or in Python", rows),
        question=question.of("sources"),
        is_wide=True,
    )


def _costly(member: str, title: str, advice: Answer, question: Question) -> Panel:
    rows = [
        (
            each["function"] or "-",
            each["compile_id"],
            each["direction"],
            count(each["compiles"]),
            duration(each["seconds"]),
            ", ".join(each["kernels"]) or "-",
        )
        for each in advice[member]
    ]
    return Panel(
        member,
        title,
        before=() if rows else ("None.",),
        table=table("function|id|direction|#compiles|#could be saved|kernels", rows),
        question=question.of(member),
    )
