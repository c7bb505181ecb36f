"""How often to save: waste over the interval, the present interval, the best, and the gain."""

from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.units import count, duration, percent
from ett_service.core.dimensions import GROUPS
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import dashboard
from ett_service.pages.panel import FEW, Cell, Fact, Panel, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.window import WINDOWS, View, Viewed
from ett_service.report.advice import FORMULA, VERDICTS, interval_chart, to_gain
from ett_service.report.inputs import name_of

ROUTER = router()

_COLUMNS = (
    "cohort|#failures|#saves|#interval now|#best|#WTT% now|#at best|verdict|#GPU-hours to gain"
)


@ROUTER.get("/checkpoints")
async def show_checkpoints(
    request: Request, session: SignedIn, view: Viewed, ask: Asking
) -> Response:
    """Show what saving costs, and what another interval would gain."""
    question = Question("/v1/fleet/checkpoint-advice", {**view.window, "group_by": view.group_by})
    measured = Question(
        "/v1/fleet/summary",
        {**view.window, "group_by": view.group_by, "distributions": "false"},
    )
    answer, summary = await ask.all(question, measured)
    total = answer["total"]
    return page(
        request,
        "planning.html",
        session,
        title="Checkpoints",
        sentence=_sentence(total),
        view=view,
        windows=tuple(WINDOWS),
        dimensions=GROUPS,
        facts=_facts(total, summary["total"]),
        panels=[
            _curve(total, view, question),
            _cohorts(answer["groups"], summary["groups"], view, question),
        ],
        note=f"{FORMULA} {total['assumption']}",
        grafana=dashboard(request, "ett-checkpoints", (view.from_us, view.to_us)),
    )


def _sentence(total: Answer) -> str:
    current, best = total["current"], total["best"]
    if best["interval_seconds"] is None or current is None:
        return f"How often to save is not known: {total['reason'] or 'too few measurements'}"
    return (
        f"Jobs save every {duration(current['interval_seconds'])}; with their failures and saves, "
        f"every {duration(best['interval_seconds'])} wastes least: {VERDICTS[total['verdict']]}."
    )


def _facts(total: Answer, summary: Answer) -> list[Fact]:
    current, best = total["current"], total["best"]
    mtbf, save = total["mtbf_seconds"], total["save_seconds"]
    return [
        Fact(
            "WTT%",
            percent(summary["wasted_ratio"] if summary["jobs"] else None),
            "measured; evaluation, stalls and recompiles, too",
        ),
        Fact(
            "WTT% now",
            percent(current and current["wasted_ratio"]),
            "by the formula, at this interval",
        ),
        Fact("WTT% at best", percent(best["wasted_ratio"]), "by the same formula"),
        _measured("MTBF by training time", mtbf, total["n"]["failures"], "n={} failures"),
        _measured("a save", save, total["n"]["saves"], "blocks; n={} saves"),
        Fact(
            "to gain",
            to_gain({"group": {}, "other": False, **total}, [summary]),
            "GPU-hours in the window",
        ),
    ]


def _measured(term: str, measure: Answer, n: int, note: str) -> Fact:
    return Fact(term, duration(measure["value"]), note.format(count(n)), is_faint=n < FEW)


def _curve(total: Answer, view: View, question: Question) -> Panel:
    has_best = total["best"]["interval_seconds"] is not None
    return Panel(
        "interval",
        "WTT% over the interval",
        before=()
        if has_best
        else (total["reason"] or "Too few failures or saves in this window.",),
        chart=interval_chart(total, "all cohorts", view.lost_to) if has_best else None,
        table=table(
            "#interval|#unsaved|#blocking|#WTT%",
            (
                (
                    duration(point["interval_seconds"]),
                    percent(point["unsaved_ratio"]),
                    percent(point["blocking_ratio"]),
                    percent(point["wasted_ratio"]),
                )
                for point in total["curve"] or ()
            ),
        ),
        after=(
            "The band is where at most 5% more is wasted than at the best.",
            "Shares of the time of training, by wall time. The interval's axis is logarithmic.",
        ),
        question=question.of("total.curve") if total["curve"] else question,
        is_wide=True,
    )


def _cohorts(groups: list[Answer], measured: list[Answer], view: View, question: Question) -> Panel:
    return Panel(
        "cohorts",
        f"By {view.group_by}",
        table=table(_COLUMNS, (_cohort(group, measured, view) for group in groups)),
        after=(
            f"Cohorts with fewer than {FEW} failures are faint: their best is uncertain.",
            "They do not add up to the gain of all together, for which one interval is sought.",
        ),
        question=question,
        is_wide=True,
    )


def _cohort(group: Answer, measured: list[Answer], view: View) -> tuple[Cell | str, ...]:
    best, current = group["best"], group["current"]
    few = group["n"]["failures"] < FEW
    name = name_of(group, [view.group_by])
    href = "" if group["other"] else view.narrowed(view.group_by, group["group"][view.group_by])
    shown = (
        count(group["n"]["failures"]),
        count(group["n"]["saves"]),
        duration(current and current["interval_seconds"]),
        duration(best["interval_seconds"]),
        percent(current and current["wasted_ratio"]),
        percent(best["wasted_ratio"]),
        VERDICTS[group["verdict"]],
        to_gain(group, measured),
    )
    return (Cell(name, href=href), *(Cell(text, is_faint=few) for text in shown))
