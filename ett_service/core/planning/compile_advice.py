"""What would save compile time: sources to make dynamic, caches to load, kernels to tune less.

The seconds are those of the compiles that were seen, on the lead rank: what a setting or a cache
would have saved of them, not what it will save.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ett_service.core.planning.compiles import (
    HINTS,
    Compile,
    Kind,
    Source,
    cause_of,
    mark_dynamic_line,
    setting_entry,
    source_of,
)

CACHED_STAGES = ("inductor", "async_compile_wait", "autotune")
"""The stages that a compile does not need whose artefacts a cache holds."""

MOST_ROWS = 20
"""How many rows each list of the advice holds."""


@dataclass(frozen=True, slots=True)
class VaryingSource:
    """A source that varied from call to call, and what its recompiles took."""

    source: str
    dims: tuple[int, ...]  #: the dimensions that varied; empty for an int, or for strides alone
    recompiles: int  #: of which it was the reason; 0 if it varied together with others
    us: int
    functions: tuple[str, ...]  #: in which it varied
    jobs: int

    @property
    def mark_dynamic(self) -> str | None:
        """The line of Python that marks it; None for ints, which cannot be marked."""
        return mark_dynamic_line(self.source, self.dims)


@dataclass(frozen=True, slots=True)
class OtherReason:
    """Recompiles that no dynamic source stops."""

    kind: Kind
    example: str  #: the reason that took longest
    recompiles: int
    us: int
    functions: tuple[str, ...]
    jobs: int

    @property
    def hint(self) -> str | None:
        """What may stop them."""
        return HINTS.get(self.kind)


@dataclass(frozen=True, slots=True)
class CostlyCompile:
    """Compiles of one frame, and the time of theirs that could be saved."""

    function: str | None
    compile_id: str
    direction: str
    compiles: int
    us: int
    jobs: int
    kernels: tuple[str, ...] = ()  #: the slowest to build first


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileAdvice:
    """All sums are over the compiles that were read; lists begin with the most time."""

    compiles: int
    us: int
    recompiles: int
    recompile_us: int
    sources: Sequence[VaryingSource]
    others: Sequence[OtherReason]
    autotuned: Sequence[CostlyCompile]
    uncached: Sequence[CostlyCompile]
    autotune_us: int
    uncached_us: int

    @property
    def setting(self) -> str | None:
        """The value of ``TORCH_COMPILE_DYNAMIC_SOURCES``; None if nothing would be gained."""
        return ",".join(setting_entry(each.source) for each in self.sources) or None

    @property
    def dynamic_us(self) -> int:
        """What that value would have saved."""
        return sum(each.us for each in self.sources)


@dataclass(frozen=True, slots=True)
class LastRecompiles:
    """The recompiles of a job's last attempt: whether the advice is followed already."""

    attempt: int  #: its number
    recompiles: int
    us: int


@dataclass(slots=True)
class _Cost:
    """Compiles of one row, added up."""

    compiles: list[Compile] = field(default_factory=list)
    seen: list[Compile] = field(default_factory=list)  #: in which it varied
    dims: set[int] = field(default_factory=set)
    us: int = 0

    def add(self, compile_: Compile, us: int) -> None:
        self.compiles.append(compile_)
        self.us += us

    @property
    def forwards(self) -> int:
        return sum(each.direction == "forward" for each in self.compiles)

    @property
    def functions(self) -> tuple[str, ...]:
        functions = {each.function for each in (*self.compiles, *self.seen)}
        return tuple(sorted(name for name in functions if name))

    @property
    def jobs(self) -> int:
        return len({each.job for each in (*self.compiles, *self.seen)})

    @property
    def longest(self) -> Compile:
        return max(self.compiles, key=lambda each: each.us)


def advise(
    compiles: Sequence[Compile], before: Iterable[Compile] = (), *, across_jobs: bool = False
) -> CompileAdvice:
    """Say what would have saved time of *compiles*.

    *before* are compiles of the same jobs that are not advised on, such as those before a window;
    they count as what a cache could have held. *across_jobs* has a cache serve later jobs of the
    same model and code version, too.
    """
    recompiles = [each for each in compiles if each.reason]
    sources, others = _by_cause(recompiles)
    uncached = _uncached(compiles, [*before, *compiles], across_jobs=across_jobs)
    tuned = _by_frame(compiles, lambda each: each.autotune_us)
    return CompileAdvice(
        compiles=len(compiles),
        us=sum(each.us for each in compiles),
        recompiles=sum(each.direction == "forward" for each in recompiles),
        recompile_us=sum(each.us for each in recompiles),
        sources=sources,
        others=others,
        autotuned=tuned[:MOST_ROWS],
        uncached=uncached[:MOST_ROWS],
        autotune_us=sum(each.us for each in tuned),
        uncached_us=sum(each.us for each in uncached),
    )


def last_recompiles(compiles: Iterable[Compile], attempt: int) -> LastRecompiles:
    """Return what the *attempt*, the job's last, compiled again."""
    again = [each for each in compiles if each.reason and each.attempt == attempt]
    n_forward = sum(each.direction == "forward" for each in again)
    return LastRecompiles(attempt, n_forward, sum(each.us for each in again))


def _by_cause(
    recompiles: Iterable[Compile],
) -> tuple[list[VaryingSource], list[OtherReason]]:
    """Part recompiles by what they are about.

    What torch has seen vary together with a source is a source, too: it is what would vary next.
    """
    sources: defaultdict[str, _Cost] = defaultdict(_Cost)
    others: defaultdict[Kind, _Cost] = defaultdict(_Cost)
    for compile_ in recompiles:
        cause = cause_of(compile_.reason or "")
        if not isinstance(cause, Source):
            others[cause].add(compile_, compile_.us)
            continue
        for source in (cause, *map(source_of, compile_.varying)):
            cost = sources[source.name]
            cost.seen.append(compile_)
            cost.dims |= set() if source.dim is None else {source.dim}
        sources[cause.name].add(compile_, compile_.us)
    return _sources(sources), _others(others)


def _sources(costs: Mapping[str, _Cost]) -> list[VaryingSource]:
    rows = [
        VaryingSource(
            name, tuple(sorted(cost.dims)), cost.forwards, cost.us, cost.functions, cost.jobs
        )
        for name, cost in costs.items()
    ]
    return sorted(rows, key=lambda row: (-row.us, row.source))


def _others(costs: Mapping[Kind, _Cost]) -> list[OtherReason]:
    rows = [
        OtherReason(
            kind, cost.longest.reason or "", cost.forwards, cost.us, cost.functions, cost.jobs
        )
        for kind, cost in costs.items()
    ]
    return sorted(rows, key=lambda row: (-row.us, row.kind))


def _uncached(
    compiles: Sequence[Compile], past: Iterable[Compile], *, across_jobs: bool
) -> list[CostlyCompile]:
    """Return the compiles that a cache of an earlier attempt, or job, would have made short."""
    first: dict[Hashable, tuple[int, str, int]] = {}
    for each in past:
        for cache in _caches(each, across_jobs=across_jobs):
            first[cache] = min(first.get(cache, _begin(each)), _begin(each))

    def is_held(compile_: Compile) -> bool:
        return any(
            first[cache][1:] != (compile_.job, compile_.attempt)
            for cache in _caches(compile_, across_jobs=across_jobs)
        )

    cold = [each for each in compiles if each.cache in ("cold", "mixed") and is_held(each)]
    return _by_frame(cold, lambda each: sum(each.stages_us.get(name, 0) for name in CACHED_STAGES))


def _begin(compile_: Compile) -> tuple[int, str, int]:
    return compile_.at, compile_.job, compile_.attempt


def _caches(compile_: Compile, *, across_jobs: bool) -> list[Hashable]:
    """Name what could have held the compile: its job's cache, and that of its model and code."""
    frame = (compile_.function, compile_.compile_id, compile_.direction)
    caches: list[Hashable] = [("job", compile_.job, compile_.code_version, *frame)]
    if across_jobs and compile_.model and compile_.code_version:
        caches.append(("model", compile_.model, compile_.code_version, *frame))
    return caches


def _by_frame(
    compiles: Iterable[Compile], cost_us: Callable[[Compile], int]
) -> list[CostlyCompile]:
    """Sum a cost of compiles by function, id and direction, the most first."""
    costs: defaultdict[tuple[str, str, str], _Cost] = defaultdict(_Cost)
    for each in compiles:
        if us := cost_us(each):
            costs[each.function or "", each.compile_id, each.direction].add(each, us)
    rows = [
        CostlyCompile(
            function or None, compile_id, direction, len(cost.compiles), cost.us, cost.jobs,
            _kernels(cost.compiles),
        )
        for (function, compile_id, direction), cost in costs.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row.us, row.function or "", row.compile_id))


def _kernels(compiles: Iterable[Compile]) -> tuple[str, ...]:
    slowest: dict[str, int] = {}
    for each in compiles:
        for name, us in each.kernels.items():
            slowest[name] = max(us, slowest.get(name, 0))
    return tuple(sorted(slowest, key=lambda name: (-slowest[name], name)))
