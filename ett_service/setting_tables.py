"""The settings that are tables, and what may be no secret."""

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from ett_service.core.dimensions import Dimension
from ett_service.notifications.formats import Format

PLACEHOLDERS = frozenset({"change-me", "change_me", "changeme", "example", "password", "secret"})
"""What examples say in the place of a secret; nothing starts with one of them."""

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Row(BaseModel):
    """One entry of a setting that is a table."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PriceRow(Row):
    """The price of an accelerator hour, from a day on (UTC)."""

    hardware: Name
    from_: Annotated[date, Field(alias="from")]
    per_gpu_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PeakRateRow(Row):
    """The peak rate of one accelerator, dense, in teraflops per second."""

    hardware: Name
    precision: Name
    teraflops: PositiveFloat


class TargetRow(Row):
    """The target ETT% of the cohorts with these labels."""

    where: dict[Dimension, str] = {}
    ett_ratio: Annotated[float, Field(gt=0, le=1)]


class MetricsTable(Row):
    """What ``/metrics`` shows of the fleet, and how often it is updated."""

    every_seconds: PositiveFloat = 5.0
    clusters: PositiveInt = 20  #: shown as labels; the rest is ``other``
    cohorts: PositiveInt = 50  #: likewise
    cohort_histograms: bool = True  #: whether cohorts have histograms of their own
    jobs: tuple[Name, ...] = ()  #: patterns of running jobs that are shown by name


class SlaTable(Row):
    """Hours within which a regression should be found, acknowledged and resolved."""

    detect_hours: PositiveFloat = 96.0
    acknowledge_hours: PositiveFloat = 24.0
    resolve_hours: PositiveFloat = 168.0


class DetectionTable(Row):
    """The search for regressions; see docs/howto/regressions.md."""

    enabled: bool = True
    every_seconds: PositiveFloat = 86_400.0  #: runs end at multiples of it since the Unix epoch
    settle_seconds: PositiveFloat = 300.0  #: the longest wait for ledgers
    runs: PositiveInt = 2  #: runs in a row that must find it before it fires
    cohort: tuple[Dimension, ...] = ("cluster", "model")
    strata: tuple[Dimension, ...] = ("hardware", "kind", "size")
    recent_days: PositiveInt = 14
    baseline_days: PositiveInt = 42
    effect_floor: Annotated[float, Field(gt=1)] = 1.15
    impact_floor: Annotated[float, Field(ge=0, lt=1)] = 0.0025
    q: Annotated[float, Field(gt=0, lt=1)] = 0.05
    sla: SlaTable = SlaTable()
    remind_hours: Annotated[float, Field(ge=0)] = 24.0  #: to the next notice where nobody acts
    tune: bool = True  #: the smallest changes by people's verdicts


class ReceiverRow(Row):
    """A receiver of notifications, at any address but link-local ones."""

    name: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]{0,62}$")]
    url: SecretStr  #: a secret for Slack and similar services
    format: Format = Format("generic")
    secret: SecretStr = SecretStr("")  #: signing secret, or routing key for formats that need one
    where: dict[Dimension, str] = {}  #: only regressions of these


class AlertingTable(Row):
    """Delivery of notifications."""

    lease_seconds: PositiveFloat = 15.0
    retry_seconds: tuple[Annotated[float, Field(ge=0)], ...] = (
        0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400,
    )  # fmt: skip
    connect_seconds: PositiveFloat = 5.0
    total_seconds: PositiveFloat = 15.0
    resend_seconds: PositiveFloat = 60.0  #: to Alertmanager, while something fires
    keep_days: Annotated[float, Field(ge=0)] = 30.0  #: delivered messages; 0: for ever


class RollupsTable(Row):
    """The fleet's sums by hour and by day."""

    hourly_days: Annotated[int, Field(ge=0)] = 0  #: kept so long; 0: for ever, as days are


class OverloadTable(Row):
    """What one process takes on at once; see docs/operations.md#overload."""

    write_requests: PositiveInt = 64  #: that are worked on
    write_bytes: PositiveInt = 4 << 20  #: of them, inflated
    large_write_bytes: PositiveInt = 64 << 20  #: of those that are large
    read_requests: PositiveInt = 24
    read_bytes: PositiveInt = 64 << 20  #: that their answers take
    waiting: PositiveInt = 256  #: requests of a class that wait
    wait_seconds: PositiveFloat = 3.0  #: the longest that one waits
    body_bytes: PositiveInt = 64 << 20  #: of all bodies in memory, as sent
    connections: PositiveInt = 2000
    header_bytes: PositiveInt = 32 << 10
    headers: PositiveInt = 100
    address_bytes: PositiveInt = 8 << 10
    header_seconds: PositiveFloat = 10.0  #: until the headers of a request are whole
    idle_seconds: PositiveFloat = 60.0  #: between requests of a connection
    answer_seconds: PositiveFloat = 30.0  #: in which a quarter of an answer must be taken
