"""The parts of a dashboard as plain data, apart from their layout."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto


class Source(StrEnum):
    """Which kind of datasource answers, by the name of Grafana's plugin."""

    PROMETHEUS = "prometheus"
    POSTGRES = "grafana-postgresql-datasource"


class Kind(StrEnum):
    """How a panel is drawn, by the name of Grafana's plugin."""

    TIME_SERIES = "timeseries"
    STAT = "stat"
    GAUGE = "gauge"
    TABLE = "table"
    BAR_CHART = "barchart"
    BAR_GAUGE = "bargauge"
    HEATMAP = "heatmap"
    STATE_TIMELINE = "state-timeline"


class Format(StrEnum):
    """The shape of a query's answer. Only PromQL has heatmaps."""

    TIME_SERIES = auto()
    TABLE = auto()
    HEATMAP = auto()


class Stack(StrEnum):
    """Whether series stand on each other; only parts of one whole may."""

    NONE = auto()
    NORMAL = auto()
    PERCENT = auto()


class Paint(StrEnum):
    """Where a panel names categories, which have one colour everywhere."""

    NOWHERE = auto()
    SERIES = auto()  #: each series or column is a category
    VALUES = auto()  #: states, bars, or the cells of a column that is ``painted`` are categories


@dataclass(frozen=True, slots=True)
class Query:
    """A question in PromQL or SQL. ``legend`` names its series, by labels as ``{{label}}``.

    One beside others may be left unanswered where ``may_be_empty`` says why.
    """

    text: str
    legend: str = ""
    format: Format = Format.TIME_SERIES
    instant: bool = False  #: at the end of the range only; SQL takes no notice
    exemplars: bool = False  #: show the attempts behind a histogram; SQL takes no notice
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A way onwards. The URL may hold Grafana's variables; see ``links``."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Threshold:
    """The colour from a value on; the first has none and holds below all others."""

    value: float | None
    colour: str


@dataclass(frozen=True, slots=True)
class Transformation:
    """What Grafana does with the answer before it draws; ``name`` and options are Grafana's."""

    name: str
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """How one series or column differs from the rest of its panel; empty: it does not."""

    name: str  #: as it comes out of the transformations
    title: str = ""
    unit: str = ""
    decimals: int | None = None
    colour: str = ""
    hidden: bool = False
    painted: bool = False  #: of a column whose words have colours: ``Panel.paint``
    dashed: bool = False
    fill_down_to: str = ""  #: name of the series that ends the area below
    width: int | None = None  #: of a column, pixels
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A question, its answer's unit, and what to do about it.

    ``unit`` is one of Grafana's (``percentunit``, ``s``, ``h``, ``short``, ...). A panel needs
    data unless ``may_be_empty`` says why it may have none. ``unmatched`` is the reason where a
    query takes all instances, or all scrape jobs, together.
    """

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str
    kind: Kind = Kind.TIME_SERIES
    may_be_empty: str = ""
    unmatched: str = ""
    width: int = 12  #: of 24
    height: int = 8
    decimals: int | None = None
    low: float | None = None
    high: float | None = None
    step: str = ""  #: a point stands for so long at least, as in ``1h``
    stack: Stack = Stack.NONE
    paint: Paint = Paint.NOWHERE
    horizontal: bool = False
    x_field: str = ""  #: of a bar chart
    sort_by: str = ""  #: of a table: its column, largest first
    named: bool = False  #: of a stat: the name of each value beside it
    no_value: str = "-"
    thresholds: tuple[Threshold, ...] = ()
    fields: tuple[Field, ...] = ()
    value_colours: Mapping[str, str] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    transformations: tuple[Transformation, ...] = ()

    @property
    def needs_data(self) -> bool:
        """Whether a fleet that runs as it should leaves no query of this panel unanswered."""
        return not self.may_be_empty


@dataclass(frozen=True, slots=True)
class Row:
    """Panels that answer one part of the question."""

    title: str
    panels: tuple[Panel, ...]


class VariableKind(StrEnum):
    """Where the values of a variable come from."""

    DATASOURCE = auto()
    QUERY = auto()
    CHOICE = "custom"
    TEXT = "textbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """What a reader chooses. ``query`` goes to the datasource, lists choices after commas, or
    is the first text."""

    name: str
    label: str
    description: str
    query: str
    kind: VariableKind = VariableKind.QUERY
    several: bool = False  #: more than one value at once, and all
    all_value: str = ""  #: what stands for all; empty: each value by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """What happened, drawn across every panel, found by a query.

    In PromQL ``title`` and ``text`` may name labels as ``{{label}}``; in SQL the columns are
    ``time``, ``timeend``, ``text`` and ``tags``.
    """

    name: str
    query: str
    colour: str
    title: str = ""
    text: str = ""
    shown: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """Panels that answer the question in the title, from general to specific."""

    uid: str
    title: str
    description: str
    source: Source
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...]
    annotations: tuple[Annotation, ...] = ()
    links: tuple[Link, ...] = ()  #: beside those to the rest of its pack
    tags: tuple[str, ...] = ()
    since: str = "now-7d"
    refresh: str = "5m"

    @property
    def panels(self) -> Iterator[Panel]:
        """Every panel, in reading order."""
        return (panel for row in self.rows for panel in row.panels)


@dataclass(frozen=True, slots=True)
class Pack:
    """The dashboards over one kind of datasource; ``folder`` is where their JSON lies."""

    folder: str
    dashboards: tuple[Dashboard, ...]

    @property
    def tag(self) -> str:
        """Carried by each of its dashboards; they link to each other by it."""
        return f"ett-{self.folder}"


def datasource(source: Source) -> Variable:
    """Return the variable that every query of a dashboard asks: ``${datasource}``."""
    return Variable(
        name="datasource",
        label="Datasource",
        description="The datasource of all panels.",
        query=source.value,
        kind=VariableKind.DATASOURCE,
    )


def several(name: str, label: str, description: str, query: str, all_value: str) -> Variable:
    """Return a variable of several values; *all_value* stands for all, chosen at first."""
    return Variable(
        name=name,
        label=label,
        description=description,
        query=query,
        several=True,
        all_value=all_value,
    )


def ett_url(first: str = "http://127.0.0.1:8080") -> Variable:
    """Return the variable that holds the address of the service, for links to its answers."""
    return Variable(
        name="ett_url",
        label="ETT service",
        description="Address of the service, as your browser reaches it.",
        query=first,
        kind=VariableKind.TEXT,
    )


def to_dashboard(uid: str, *carried: str, **chosen: str) -> str:
    """Return the path of a dashboard that keeps the time range and the variables *carried*.

    *chosen* sets others to what Grafana fills in: a label of the series as
    ``__field.labels.cohort``, a column of the row as ``__data.fields.cohort``.
    """
    parts: Iterable[str] = (
        "${__url_time_range}",
        *(f"${{{name}:queryparam}}" for name in carried),
        *(f"var-{name}=${{{value}:percentencode}}" for name, value in chosen.items()),
    )
    return f"/d/{uid}?{'&'.join(parts)}"


def to_trace(project: str, job: str) -> str:
    """Return the address of a job's trace at the service; *project* and *job* as above."""
    path = f"/v1/jobs/${{{job}:percentencode}}/trace"
    return f"${{ett_url}}{path}?project=${{{project}:percentencode}}"


def to_page(path: str, **query: str) -> str:
    """Return the address of a page of the service; *query* names what Grafana fills in."""
    parts = (f"{name}=${{{value}:percentencode}}" for name, value in query.items())
    return f"${{ett_url}}{path}" + (f"?{'&'.join(parts)}" if query else "")


def to_job_page(project: str, job: str) -> str:
    """Return the address of a job's page at the service."""
    return to_page(f"/jobs/${{{job}:percentencode}}", project=project)
