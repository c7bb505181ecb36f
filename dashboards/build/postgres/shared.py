"""Variables, links, panels and columns of the dashboards over PostgreSQL."""

from typing import Any

from dashboards.build.colours import BAD, QUIET
from dashboards.build.kit import (
    Annotation,
    Field,
    Format,
    Kind,
    Link,
    Panel,
    Query,
    Source,
    Variable,
    datasource,
    ett_url,
    several,
    to_job_page,
    to_trace,
)
from dashboards.build.sql import fleet
from dashboards.build.sql.scope import EVERYTHING, values_of

DATASOURCE = datasource(Source.POSTGRES)
ETT_URL = ett_url()


def of_values(name: str, label: str, description: str, query: str) -> Variable:
    """Return a variable of several values, of which all are chosen at first."""
    return several(name, label, description, query, EVERYTHING)


PROJECT = of_values("project", "Project", "Projects to show.", values_of("project"))
FLEET_DIMENSIONS = (
    PROJECT,
    of_values("team", "Team", "Teams to show.", values_of("team")),
    of_values("model", "Model", "Models to show.", values_of("model")),
    of_values("cluster", "Cluster", "Clusters to show.", values_of("cluster")),
    of_values("hardware", "Hardware", "Hardware to show.", values_of("hardware")),
)

MARKERS = Annotation(name="Markers", query=fleet.MARKERS, colour=QUIET)
REGRESSIONS = Annotation(name="Regressions", query=fleet.REGRESSIONS, colour=BAD)


def job_link(project: str = "__data.fields.project") -> Link:
    """Return the link from a row with ``job``, ``from_ms`` and ``to_ms`` to the job's time."""
    return Link(
        "Where its time went",
        "/d/ett-sql-job?from=${__data.fields.from_ms}&to=${__data.fields.to_ms}"
        f"&${{datasource:queryparam}}&var-project=${{{project}:percentencode}}"
        "&var-job=${__data.fields.job:percentencode}",
    )


PAGE_LINK = Link("Its page", to_job_page("__data.fields.project", "__data.fields.job"))
TRACE_LINK = Link("Its trace", to_trace("__data.fields.project", "__data.fields.job"))
OF_A_JOB = (job_link(), PAGE_LINK, TRACE_LINK)


def in_table(query: str) -> tuple[Query, ...]:
    """Return the query of a panel whose answer is rows."""
    return (Query(query, format=Format.TABLE),)


def table(
    title: str, description: str, query: str, *, unit: str = "short", width: int = 24, **more: Any
) -> Panel:
    """Return a table over the whole width; *more* are members of ``Panel``."""
    return Panel(
        title=title,
        description=description,
        queries=in_table(query),
        kind=Kind.TABLE,
        unit=unit,
        width=width,
        **more,
    )


def stat(title: str, description: str, query: str, **more: Any) -> Panel:
    """Return a few large numbers; *more* are members of ``Panel``."""
    return Panel(
        title=title,
        description=description,
        queries=in_table(query),
        kind=Kind.STAT,
        height=5,
        **more,
    )


def bars(title: str, description: str, query: str, along: str, **more: Any) -> Panel:
    """Return bars by the column *along*; *more* are members of ``Panel``."""
    return Panel(
        title=title,
        description=description,
        queries=in_table(query),
        kind=Kind.BAR_CHART,
        x_field=along,
        **more,
    )


def daily(title: str, description: str, query: str, **more: Any) -> Panel:
    """Return series of which a point is a day; *more* are members of ``Panel``."""
    return Panel(title=title, description=description, queries=(Query(query),), step="1d", **more)


def ratio(name: str, title: str) -> Field:
    """Return a column that is a share."""
    return Field(name=name, title=title, unit="percentunit", decimals=2)


def seconds(name: str, title: str) -> Field:
    """Return a column that is a duration."""
    return Field(name=name, title=title, unit="s", decimals=1)


def number(name: str, title: str, decimals: int | None = None) -> Field:
    """Return a column that counts or adds up."""
    return Field(name=name, title=title, unit="short", decimals=decimals)


def text(name: str, title: str) -> Field:
    """Return a column of words, or of names."""
    return Field(name=name, title=title, unit="none")


def instant(name: str, title: str) -> Field:
    """Return a column of instants."""
    return Field(name=name, title=title, unit="dateTimeAsIso", width=170)


def hidden(*names: str) -> tuple[Field, ...]:
    """Return columns that only links need."""
    return tuple(Field(name=name, hidden=True) for name in names)
