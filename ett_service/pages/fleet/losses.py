"""What the fleet loses: by cohort, by job, by cause, and how long starts and recoveries take."""

from collections.abc import Sequence
from dataclasses import dataclass

from ett_service.charts.bars import Bar, stacked_bars
from ett_service.charts.units import (
    amount,
    cohort,
    count,
    duration,
    gpu_hours,
    level_change,
    money,
    percent,
    subject_in_words,
)
from ett_service.core.words import Category, JobState
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import job_page, regression_page
from ett_service.pages.panel import ARROW, FEW, Cell, Panel, counted, table
from ett_service.pages.regressions.standing import standing
from ett_service.pages.terms import CATEGORIES
from ett_service.pages.window import View, written
from ett_service.report.inputs import (
    ett_ratio,
    lost_by_category,
    lost_gpu_seconds,
    name_of,
    share,
)

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class FleetAnswers:
    """The answers that panels are made of."""

    view: View
    now: Answer
    before: Answer
    change: Answer
    jobs: Answer
    regressions: Sequence[Answer]
    question: Question  #: what ``now`` answers


def categories(gathered: FleetAnswers) -> Panel:
    """Draw the whole of the time as one bar."""
    total = gathered.now["total"]
    spent = {
        Category(name): seconds / _HOUR for name, seconds in total["weighted_categories"].items()
    }
    return Panel(
        "categories",
        "All time as one bar",
        chart=stacked_bars(
            "categories",
            "Accelerator time by category, by accelerators",
            [Bar("", spent)],
            part_href=gathered.view.lost_to,
        ),
        table=table(
            "category|#hours times accelerators|#share",
            (
                (
                    Cell(
                        category,
                        href=gathered.view.lost_to(category),
                        title=CATEGORIES[category],
                        swatch=category,
                    ),
                    gpu_hours(hours * _HOUR),
                    percent(share(hours * _HOUR, total["weighted_seconds"])),
                )
                for category, hours in spent.items()
                if hours
            ),
        ),
        question=gathered.question.of("total.weighted_categories"),
    )


def cohorts(gathered: FleetAnswers) -> Panel:
    """Rank the cohorts by the GPU-hours that they lost."""
    view = gathered.view
    ranked = sorted(gathered.now["groups"], key=lost_gpu_seconds, reverse=True)
    ranked = [group for group in ranked if lost_gpu_seconds(group) > 0]
    whole = lost_gpu_seconds(gathered.now["total"])
    bars = [
        Bar(
            name_of(group, [view.group_by]),
            {Category(name): hours for name, hours in lost_by_category(group).items()},
            f"{gpu_hours(lost_gpu_seconds(group))} GPU-h",
            _narrowed(view, group),
        )
        for group in ranked
    ]
    full = max((bar.total for bar in bars), default=0.0)
    left = gathered.now["group_count"] - len(gathered.now["groups"])
    return Panel(
        "cohorts",
        f"GPU-hours lost, by {view.group_by}",
        chart=stacked_bars("cohorts", f"GPU-hours lost, by {view.group_by}", bars, full=full)
        if bars
        else None,
        table=table(
            f"{view.group_by}|#lost GPU-hours|#share of the loss|#ETT%|largest loss|#cost|#jobs",
            (_cohort(group, bar, whole) for group, bar in zip(ranked, bars, strict=True)),
        ),
        after=(
            "Shares are of all GPU-hours lost.",
            "Waits that hold no accelerators lose none, as mostly in restart_wait.",
            *((f"{count(left)} more with smaller losses.",) if left > 0 else ()),
        ),
        question=gathered.question,
    )


def _narrowed(view: View, group: Answer) -> str:
    return "" if group["other"] else view.narrowed(view.group_by, group["group"][view.group_by])


def _cohort(group: Answer, bar: Bar, whole: float) -> tuple[Cell | str, ...]:
    lost = lost_by_category(group)
    largest = max(lost, key=lambda category: lost[category])
    return (
        Cell(bar.name, href=bar.href),
        gpu_hours(lost_gpu_seconds(group)),
        percent(share(lost_gpu_seconds(group), whole)),
        percent(ett_ratio(group)),
        Cell(f"{largest}, {gpu_hours(lost[largest] * _HOUR)} GPU-h", swatch=largest),
        money(group["cost"]["total"], group["cost"]["currency"]),
        counted(count(group["jobs"]), group["jobs"]),
    )


def jobs(gathered: FleetAnswers, question: Question) -> Panel:
    """List the jobs that lost most, or that spent most on the category of the address."""
    category = gathered.view.category
    rows = [
        (
            Cell(job["job"], href=job_page(job["job"], job["project"])),
            _so_far(percent(job["ett_ratio"]), job),
            gpu_hours(
                job["weighted_categories"][category] if category else job["lost_weighted_seconds"]
            ),
            count(job["failures"]),
            money(job["cost"], gathered.jobs["currency"]),
        )
        for job in gathered.jobs["jobs"]
    ]
    return Panel(
        "jobs",
        f"Jobs with most {category}" if category else "Jobs that lost most",
        before=() if rows or not category else (f"No job has {category} in this window.",),
        table=table(
            f"job|#ETT%|#{'' if category else 'lost '}hours times accelerators|#failures|#cost",
            rows,
        ),
        after=(
            "In the window, by accelerators.",
            "Waits that hold no accelerators count here, but not in GPU-hours lost.",
        ),
        more=Cell("Jobs that lost most", href=gathered.view.address(category=None) + "#jobs")
        if category
        else None,
        question=question,
        is_table_open=True,
    )


def _so_far(text: str, job: Answer) -> Cell:
    is_over = job["state"] == JobState.FINISHED
    return Cell(text if is_over else f"{text} so far", is_faint=not is_over)


def regressions_panel(regressions: Sequence[Answer], question: Question) -> Panel:
    """List what the detector found in the time of the trend, the costliest first."""
    rows = [
        (
            Cell(_named(finding), href=regression_page(finding["id"], finding["project"])),
            cohort(finding["cohort"]),
            standing(finding),
            level_change(finding, ARROW),
            amount(finding["impact"]["gpu_hours_per_week"]),
        )
        for finding in regressions
    ]
    return Panel(
        "regressions",
        "Regressions",
        before=() if rows else ("The detector found nothing that is firing or was resolved.",),
        table=table("what|cohort|state|median before and after|#GPU-hours a week", rows),
        question=question,
        is_table_open=True,
    )


def _named(finding: Answer) -> str:
    verdict, name = finding["verdict"], subject_in_words(finding)
    return name if verdict == "regression" else f"{name} ({verdict})"


def failures(gathered: FleetAnswers) -> Panel:
    """Rank the causes of failures."""
    now, before = gathered.now["total"], gathered.before["total"]
    whole = now["failures"]["total"]
    last = {_cause(failure): failure["count"] for failure in before["failures"]["by"] or ()}
    ranked = sorted(now["failures"]["by"], key=lambda failure: (-failure["count"], _cause(failure)))
    rows = [
        (
            Cell(_cause(failure), href=_failing(gathered.view, failure["cause"])),
            counted(count(failure["count"]), failure["count"]),
            percent(share(failure["count"], whole)),
            count(last.get(_cause(failure), 0)),
            duration(failure["unsaved_training_seconds"]),
        )
        for failure in ranked
    ]
    return Panel(
        "failures",
        "Failures by cause",
        before=(_rates(now, whole),),
        table=table(f"cause|#failures|#of all|#{gathered.view.earlier}|#unsaved training", rows),
        after=_wider(gathered.view),
        more=Cell("Jobs with most failures", href=_failing(gathered.view)),
        question=gathered.question.of("total.failures.by"),
        is_table_open=True,
    )


def _failing(view: View, cause: str | None = None) -> str:
    """Return the address of the jobs of a window that failed most often, for *cause* if given."""
    days = {"from": written(view.from_us), "to": written(view.to_us)}
    narrowed = {**view.job_filters, **days, "cause": cause, "sort": "-failures"}
    return Question("/jobs", narrowed).address


def _wider(view: View) -> tuple[str, ...]:
    """Say by what a list of jobs is wider than the view."""
    names = " and ".join(view.beyond_jobs).replace("_", " ")
    return (f"Lists of jobs behind the links are not narrowed by {names}.",) if names else ()


def _cause(failure: Answer) -> str:
    return f"{failure['origin']}: {failure['cause']}"


def _rates(now: Answer, whole: int) -> str:
    mtbf = now["mtbf"]
    if not whole:
        return f"Nothing failed: MTBF is at least {_low(mtbf)}, by running time."
    return (
        f"{count(whole)} failures, {count(now['failures']['infra'])} of them of origin infra or "
        f"preemption. MTBF {duration(mtbf['seconds'])} by running time "
        f"({mtbf['confidence']:.0%} interval: {_low(mtbf)} to {duration(mtbf['high'])})."
    )


def _low(mtbf: Answer) -> str:
    return duration(mtbf["low"])


_SPEEDS = (
    ("at reference speed", "effective_at_reference"),
    ("slowed", "slowed"),
    ("not measured", "speed_unmeasured"),
)


def speeds(gathered: FleetAnswers) -> Panel:
    """Tell how much of effective training was as fast as its jobs can be, and waits for data."""
    now, before = gathered.now["total"], gathered.before["total"]
    whole, earlier = _trained(now), _trained(before)
    rows = [
        (
            name,
            gpu_hours(now[f"{part}_weighted_seconds"]),
            percent(share(now[f"{part}_weighted_seconds"], whole)),
            percent(share(before[f"{part}_weighted_seconds"], earlier)),
        )
        for name, part in _SPEEDS
    ]
    return Panel(
        "speeds",
        "Speed of training",
        before=(_data_wait(now),),
        table=table(
            f"effective training|#hours times accelerators|#share|#{gathered.view.earlier}", rows
        ),
        after=(
            "Of attempts that ended in the window or run at its end, with all that they trained.",
            "ETT% counts all three.",
        ),
        question=gathered.question,
        is_table_open=True,
    )


def _trained(total: Answer) -> float:
    trained: float = sum(total[f"{part}_weighted_seconds"] for _, part in _SPEEDS)
    return trained


def _data_wait(total: Answer) -> str:
    reporting = total["data_wait_attempts"]
    if not reporting:
        return "No attempt reports waits for data."
    return (
        f"Loops waited for data for {percent(total['data_wait_ratio'])} of their time, by "
        f"accelerators (n={count(reporting)} attempts that report it)."
    )


_SPREADS = (
    ("time to start", "time_to_start"),
    ("time to recover", "time_to_recover"),
    ("checkpoint blocking", "checkpoint_blocking"),
    ("queue wait", "queue_wait"),
)


def durations(gathered: FleetAnswers) -> Panel:
    """Tell the distributions of what takes time around training."""
    now, before = gathered.now["total"], gathered.before["total"]
    rows = [_spread(name, now[member], before[member]) for name, member in _SPREADS]
    return Panel(
        "durations",
        "Time to start and to recover",
        table=table(f"|#n|#mean|#p50|#p90|#p99|#p50 {gathered.view.earlier}", rows),
        after=(
            f"By wall time. Fewer than {FEW} values are faint: they say little.",
            *_between_runs(now),
        ),
        question=gathered.question.of(",".join(f"total.{member}" for _, member in _SPREADS)),
        is_table_open=True,
    )


def _between_runs(now: Answer) -> tuple[str, ...]:
    seconds = now["between_runs_seconds"]
    if not seconds:
        return ()
    return (f"Between two runs of a job: {duration(seconds)} in all, in no E2E.",)


def _spread(name: str, now: Answer, before: Answer) -> tuple[Cell | str, ...]:
    few = now["count"] < FEW
    values = [Cell(duration(now[part]), is_faint=few) for part in ("mean", "p50", "p90", "p99")]
    return (name, Cell(count(now["count"]), is_faint=few), *values, duration(before["p50"]))
