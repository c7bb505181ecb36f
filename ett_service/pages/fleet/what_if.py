"""What it would gain to cut a category or failures: the service tries it on the ledgers."""

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.bridge import Step, bridge
from ett_service.charts.units import amount, count, money, percent, points
from ett_service.core.dimensions import GROUPS
from ett_service.core.words import Category, Origin
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import dashboard
from ett_service.pages.panel import Fact, Panel, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.window import WINDOWS, Viewed

ROUTER = router()

_MOST_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Slider:
    """Something that may be cut, and by how many percent it is."""

    name: str
    what: str
    percent: int

    @property
    def scenario(self) -> str:
        """The scenario as the API reads it."""
        return f"cut {self.what} by {self.percent}%"


_CUTS: Mapping[str, str] = {
    **{str(origin): f"{origin} failures" for origin in Origin},
    **{
        str(category): str(category)
        for category in Category
        if category is not Category.EFFECTIVE_TRAINING
    },
}
_AT_FIRST = {"infra": 50, "pt2_compile": 50}


@ROUTER.get("/what-if")
async def show_what_if(request: Request, session: SignedIn, view: Viewed, ask: Asking) -> Response:
    """Show what cuts would have gained in the window."""
    query = request.query_params
    at_first = {} if any(name in query for name in _CUTS) else _AT_FIRST
    sliders = [
        Slider(name, what, _percent(query.get(name), at_first.get(name, 0)))
        for name, what in _CUTS.items()
    ]
    scenarios = [slider.scenario for slider in sliders if slider.percent]
    question = Question("/v1/what-if", {**view.window, "scenario": scenarios})
    answer = await ask(question) if scenarios else None
    return page(
        request,
        "what_if.html",
        session,
        sentence=_sentence(answer),
        view=view,
        windows=tuple(WINDOWS),
        dimensions=GROUPS,
        sliders=sliders,
        facts=_facts(answer) if answer else [],
        panels=[_gains(answer, question)] if answer else [],
        grafana=dashboard(request, "ett-fleet", (view.from_us, view.to_us)),
    )


def _percent(text: str | None, otherwise: int) -> int:
    if text is None or not text.isdecimal():
        return otherwise
    return min(int(text), _MOST_PERCENT)


def _sentence(answer: Answer | None) -> str:
    if answer is None:
        return "Nothing is cut: move a slider."
    gain = answer["together"]
    return (
        f"Together {points(gain['points'] / 100)}: ETT {percent(answer['before']['ett_ratio'])} "
        f"would have been {percent(gain['ett_ratio'])}."
    )


def _facts(answer: Answer) -> list[Fact]:
    gain = answer["together"]
    bounds = gain["points_interval"]
    between = (
        f"{answer['confidence']:.0%} interval {points(bounds['low'] / 100)} to "
        f"{points(bounds['high'] / 100)}"
        if bounds
        else "no interval: too few jobs"
    )
    return [
        Fact("ETT% with the cuts", percent(gain["ett_ratio"]), "by accelerators"),
        Fact("points", points(gain["points"] / 100), between),
        Fact("GPU-hours", amount(gain["gpu_hours"]), "gained in the window"),
        Fact("cost", money(gain["money"], answer["currency"]), "gained in the window"),
        Fact("jobs read", count(answer["jobs_read"]), f"of {count(answer['jobs'])} in the window"),
    ]


def _gains(answer: Answer, question: Question) -> Panel:
    ranked = sorted(answer["gains"], key=lambda gain: -gain["points"])
    overlap = answer["together"]["points"] - sum(gain["points"] for gain in ranked)
    steps = [Step("; ".join(gain["scenarios"]), gain["points"] / 100) for gain in ranked]
    steps += (
        [Step("gained by more than one, counted once", overlap / 100)] if len(ranked) > 1 else []
    )
    return Panel(
        "gains",
        "What each would have gained",
        chart=bridge(
            "gains",
            "From the ETT% of the window to that with all cuts",
            ("as it was", answer["before"]["ett_ratio"]),
            steps,
            ("with all", answer["together"]["ett_ratio"]),
        ),
        table=table(
            "scenario|#points|#GPU-hours gained|#cost gained|#failures it is about|#jobs that gain",
            (
                (
                    "; ".join(gain["scenarios"]),
                    points(gain["points"] / 100),
                    amount(gain["gpu_hours"]),
                    money(gain["money"], answer["currency"]),
                    count(gain["failures"]),
                    count(gain["jobs"]),
                )
                for gain in ranked
            ),
        ),
        after=tuple(dict.fromkeys(text for gain in ranked for text in gain["assumptions"])),
        question=question,
        is_wide=True,
        is_table_open=True,
    )
