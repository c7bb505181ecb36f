"""What the fleet loses: by cohort, by job, by cause, and how long starts and recoveries take."""

from collections.abc import Sequence

from ett_service.charts.bars import Bar, stacked_bars
from ett_service.charts.units import (
    amount,
    cohort,
    count,
    duration,
    failure_counts,
    gpu_hours,
    level_change,
    money,
    percent,
    subject_in_words,
    time_between_failures,
)
from ett_service.core.words import Category, JobState
from ett_service.pages.ask import Answer, Question
from ett_service.pages.fleet.answers import BY_ACCELERATORS, FleetAnswers, Weight
from ett_service.pages.links import job_page, regression_page
from ett_service.pages.panel import ARROW, FEW, Cell, Panel, counted, so_far, table
from ett_service.pages.regressions.standing import standing
from ett_service.pages.terms import CATEGORIES
from ett_service.pages.window import View
from ett_service.report.inputs import (
    ett_ratio,
    lost_by_category,
    lost_gpu_seconds,
    name_of,
    share,
)

_HOUR = 3600.0


def categories(gathered: FleetAnswers) -> Panel:
    """Draw the whole of the time as one bar."""
    total, weight = gathered.now["total"], gathered.weight
    spent = {Category(name): seconds for name, seconds in total[weight.categories].items()}
    return Panel(
        "categories",
        "All time as one bar",
        chart=stacked_bars(
            "categories",
            f"Time by category, {weight.name}",
            [Bar("", spent)],
            part_href=gathered.lost_to,
        ),
        table=table(
            f"category|#{weight.amount}|#{weight.share}",
            (
                (
                    Cell(
                        category,
                        href=gathered.lost_to(category),
                        title=CATEGORIES[category],
                        swatch=category,
                    ),
                    weight.shown(seconds),
                    percent(weight.share_of(total, category)),
                )
                for category, seconds in spent.items()
                if seconds
            ),
        ),
        question=gathered.question.of(f"total.{weight.categories}"),
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
            so_far(percent(job["ett_ratio"]), is_over=job["state"] == JobState.FINISHED),
            gpu_hours(
                job["weighted_categories"][category] if category else job["lost_gpu_seconds"]
            ),
            count(job["failures"]),
            money(job["cost"], gathered.jobs["currency"]),
        )
        for job in gathered.jobs["jobs"]
    ]
    amount_name = BY_ACCELERATORS.amount if category else "lost GPU-hours"
    return Panel(
        "jobs",
        f"Jobs with most {category}" if category else "Jobs that lost most",
        before=() if rows or not category else (f"No job has {category} in this window.",),
        table=table(
            f"job|#ETT%|#{amount_name}|#failures|#cost",
            rows,
        ),
        after=(
            "In the window, by accelerators.",
            *(("Waits that hold no accelerators count, too.",) if category else ()),
        ),
        more=Cell("Jobs that lost most", href=gathered.view.address(category=None) + "#jobs")
        if category
        else None,
        question=question,
        is_table_open=True,
    )


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
        before=(_rates(now),),
        table=table(f"cause|#failures|#of all|#{gathered.view.earlier}|#unsaved training", rows),
        after=wider(gathered.view),
        more=Cell("Jobs with most failures", href=_failing(gathered.view)),
        question=gathered.question.of("total.failures.by"),
        is_table_open=True,
    )


def _failing(view: View, cause: str | None = None) -> str:
    """Return the address of the jobs of a window that failed most often, for *cause* if given."""
    return Question("/jobs", {**view.jobs_alive, "cause": cause, "sort": "-failures"}).address


def wider(view: View) -> tuple[str, ...]:
    """Say by what a list of jobs is wider than the view."""
    names = " and ".join(view.beyond_jobs).replace("_", " ")
    return (f"Lists of jobs behind the links are not narrowed by {names}.",) if names else ()


def _cause(failure: Answer) -> str:
    return f"{failure['origin']}: {failure['cause']}"


def _rates(now: Answer) -> str:
    counted = failure_counts(now["failures"]["total"], now["failures"]["infra"])
    return f"{counted}. MTBF by running time: {time_between_failures(now['mtbf'])}."


_SPEEDS = (
    ("at reference speed", "effective_at_reference"),
    ("slowed", "slowed"),
    ("not measured", "speed_unmeasured"),
)


def speeds(gathered: FleetAnswers) -> Panel:
    """Tell how much of effective training was as fast as its jobs can be, and waits for data."""
    now, before, weight = gathered.now["total"], gathered.before["total"], gathered.weight
    whole, earlier = _trained(now, weight), _trained(before, weight)
    rows = [
        (
            name,
            weight.shown(weight.seconds(now, part)),
            percent(share(weight.seconds(now, part), whole)),
            percent(share(weight.seconds(before, part), earlier)),
        )
        for name, part in _SPEEDS
    ]
    return Panel(
        "speeds",
        "Speed of training",
        before=(_data_wait(now, weight),),
        table=table(
            f"effective training|#{weight.amount}|#{weight.share}|#{gathered.view.earlier}",
            rows,
        ),
        after=(
            "Of attempts that ended in the window or run at its end, with all that they trained.",
            "ETT% counts all three.",
        ),
        question=gathered.question,
        is_table_open=True,
    )


def _trained(total: Answer, weight: Weight) -> float:
    return sum(weight.seconds(total, part) for _, part in _SPEEDS)


def _data_wait(total: Answer, weight: Weight) -> str:
    reporting = total["data_wait_attempts"]
    if not reporting:
        return "No attempt reports waits for data."
    return (
        f"Loops waited for data for {percent(total[weight.data_wait])} of their time, "
        f"{weight.name} (n={count(reporting)}, the attempts that report it)."
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
