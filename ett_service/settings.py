"""The settings of the server: read from ``ett.toml`` and ``ETT_*``, and validated.

Only entry points read them. The environment wins over the file, the file over the defaults.
"""

import difflib
import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from ett_service.core.errors import EttError
from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.core.ledger.attempts.lifetimes import Limits
from ett_service.core.regressions.clocks import Sla
from ett_service.fleet.economy import Economy, PeakRate, Price, Target
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import OF_SETTINGS, Receiver, Secret
from ett_service.setting_tables import (
    PLACEHOLDERS,
    AlertingTable,
    DetectionTable,
    MetricsTable,
    Name,
    OverloadTable,
    PeakRateRow,
    PositiveFloat,
    PositiveInt,
    PriceRow,
    ReceiverRow,
    RollupsTable,
    TargetRow,
)

PREFIX = "ETT_"
DEFAULT_FILE = Path("ett.toml")
DATABASES = ("sqlite:///", "postgresql+psycopg://")
_PLACEHOLDER = "has an example's word in the place of a secret; draw one: openssl rand -hex 24"

OTHER_VARIABLES = frozenset(
    {
        "ETT_AGENT_STAGES", "ETT_ALLOCATED_AT", "ETT_API_KEY", "ETT_ATTEMPT", "ETT_AUTO",
        "ETT_CONFIG", "ETT_CORPUS", "ETT_CYCLE", "ETT_DISABLED", "ETT_GPUS", "ETT_JOB",
        "ETT_LAUNCH", "ETT_LAUNCHED_AS", "ETT_LAUNCHER", "ETT_RANK", "ETT_SPOOL",
        "ETT_SUBMITTED_AT", "ETT_TEST_CITUS_URL", "ETT_TEST_DATABASE_URL", "ETT_URL",
    }
)  # fmt: skip
"""Variables that the client, the command line and the tests read; they are not settings."""


class BadSettings(EttError):
    """A setting that is unknown, malformed or out of bounds."""

    hint = "Every setting is described in docs/operations.md; `ett config show` prints them."


class Settings(BaseModel):
    """All settings. Durations are in seconds, sizes in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database_url: str = "sqlite:///ett.db"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080  #: 0 takes any free one
    open_metrics: bool = False  #: ``/metrics`` without a key
    embedded_worker: bool = True  #: whether ``ett serve`` also computes the ledgers
    worker_poll_seconds: PositiveFloat = 0.2
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    lost_after_seconds: PositiveInt = 900
    queue_lost_after_seconds: PositiveInt = 7 * 86_400
    max_body_bytes: PositiveInt = 8 << 20
    max_inflated_bytes: PositiveInt = 64 << 20
    max_batch_events: PositiveInt = 10_000
    max_event_bytes: PositiveInt = 16 << 10
    max_depth: PositiveInt = 8
    max_future_seconds: PositiveInt = 86_400
    min_free_bytes: Annotated[int, Field(ge=0)] = 64 << 20  #: beside a SQLite file, to take events
    body_deadline_seconds: PositiveFloat = 30.0
    overload: OverloadTable = OverloadTable()
    cohorts_a_day: PositiveInt = 500  #: of a project, with rollups of their own
    metrics: MetricsTable = MetricsTable()
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "USD"
    accelerators_per_node: PositiveInt = 8
    prices: tuple[PriceRow, ...] = ()
    peak_rates: tuple[PeakRateRow, ...] = ()  #: they override those of the data sheets
    targets: tuple[TargetRow, ...] = ()
    detection: DetectionTable = DetectionTable()
    retention_days: Annotated[int, Field(ge=0)] = 0  #: of closed jobs' events; 0 keeps them
    rollups: RollupsTable = RollupsTable()
    alerting: AlertingTable = AlertingTable()
    receivers: tuple[ReceiverRow, ...] = ()
    webhook_allow: tuple[Name, ...] = ()  #: networks that receivers made by API may be in
    secret_key: SecretStr = SecretStr("")  #: encrypts the secrets of receivers made by API
    public_url: str = ""  #: where people reach this server, for links
    grafana_url: str = ""  #: where people reach the Grafana that shows the dashboards

    @field_validator("database_url")
    @classmethod
    def _names_a_database(cls, url: str) -> str:
        if not url.startswith(DATABASES):
            raise ValueError(f"must start with {' or '.join(DATABASES)}")
        if urlsplit(url).password in PLACEHOLDERS:
            raise ValueError(_PLACEHOLDER)
        return url

    @field_validator("secret_key")
    @classmethod
    def _is_secret(cls, given: SecretStr) -> SecretStr:
        keys = given.get_secret_value().split(",") if given else []
        if any(key.strip() in PLACEHOLDERS for key in keys):
            raise ValueError(_PLACEHOLDER)
        return given

    @field_validator(
        "prices", "peak_rates", "targets", "metrics", "detection", "alerting", "receivers",
        "webhook_allow", "overload", "rollups", mode="before",
    )  # fmt: skip
    @classmethod
    def _read_json(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        try:
            return json.loads(given)
        except ValueError:
            raise ValueError("is not JSON") from None

    @field_validator("prices")
    @classmethod
    def _has_one_price_a_day(cls, prices: tuple[PriceRow, ...]) -> tuple[PriceRow, ...]:
        counts = Counter((row.hardware.casefold(), row.from_) for row in prices)
        if any(count > 1 for count in counts.values()):
            raise ValueError("two prices of the same hardware begin on the same day")
        return prices

    @field_validator("retention_days")
    @classmethod
    def _outlasts_the_search(cls, days: int, info: ValidationInfo) -> int:
        detection: DetectionTable = info.data.get("detection", DetectionTable())
        if 0 < days < (needed := detection.recent_days + detection.baseline_days):
            raise ValueError(f"must be 0 or at least {needed}: the search for regressions reads it")
        return days

    @field_validator("rollups")
    @classmethod
    def _outlast_what_reads_hours(cls, table: RollupsTable, info: ValidationInfo) -> RollupsTable:
        needed = _fewest_hourly_days(info.data.get("detection", DetectionTable()))
        if 0 < table.hourly_days < needed:
            raise ValueError(
                f"hourly_days must be 0 or at least {needed}: searches and pages read hours"
            )
        return table

    @field_validator("receivers")
    @classmethod
    def _names_each_receiver_once(
        cls, receivers: tuple[ReceiverRow, ...], info: ValidationInfo
    ) -> tuple[ReceiverRow, ...]:
        if len({row.name for row in receivers}) < len(receivers):
            raise ValueError("two receivers have the same name")
        detection: DetectionTable = info.data.get("detection", DetectionTable())
        dimensions = {"project", *detection.cohort}
        if any(not dimensions.issuperset(row.where) for row in receivers):
            raise ValueError("where may name project and the dimensions of detection.cohort")
        for row in receivers:
            if FORMATS[row.format].secret is Secret.ROUTING_KEY and not row.secret:
                raise ValueError(f"{row.format} needs its routing key as secret")
        return receivers

    @property
    def fewest_hourly_days(self) -> int:
        """The least ``rollups.hourly_days`` with which all is found that reads hours."""
        return _fewest_hourly_days(self.detection)

    @property
    def economy(self) -> Economy:
        """Prices, peak rates and targets in the form of the fleet layer."""
        return Economy(
            prices=tuple(
                Price(row.hardware, _midnight_us(row.from_), Fraction(str(row.per_gpu_hour)))
                for row in self.prices
            ),
            peak_rates=tuple(
                PeakRate(row.hardware, row.precision, row.teraflops) for row in self.peak_rates
            ),
            targets=tuple(Target(dict(row.where.items()), row.ett_ratio) for row in self.targets),
            currency=self.currency,
            accelerators_per_node=self.accelerators_per_node,
        )

    @property
    def sla(self) -> Sla:
        """The objectives of the clocks of regressions."""
        hours = self.detection.sla
        return Sla(
            detect_us=round(hours.detect_hours * HOUR_US),
            acknowledge_us=round(hours.acknowledge_hours * HOUR_US),
            resolve_us=round(hours.resolve_hours * HOUR_US),
        )

    @property
    def configured_receivers(self) -> tuple[Receiver, ...]:
        """The receivers of the settings."""
        return tuple(
            Receiver(
                owner=OF_SETTINGS,
                name=row.name,
                url=row.url.get_secret_value(),
                format=FORMATS[row.format],
                secrets=tuple(filter(None, [row.secret.get_secret_value()])),
                where=dict(row.where.items()),
            )
            for row in self.receivers
        )

    @property
    def limits(self) -> Limits:
        """The two silences after which the fold counts an attempt or job as lost."""
        return Limits(
            lost_after_us=self.lost_after_seconds * 1_000_000,
            queue_lost_after_us=self.queue_lost_after_seconds * 1_000_000,
        )


_PAGE_DAYS = 2 * 28
"""The longest window of ``/metrics``, and on pages the one before it."""


def _fewest_hourly_days(detection: DetectionTable) -> int:
    """Cover what is read back from the present hour, and the rest of its first day."""
    return max(detection.recent_days + detection.baseline_days, _PAGE_DAYS) + 1


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where each came from: ``default``, the file's name or the variable's."""

    settings: Settings
    sources: Mapping[str, str]


def load(environ: Mapping[str, str], file: Path | None = None) -> Loaded:
    """Read the settings from *environ* and from *file*.

    Without a file it is the one that ``ETT_CONFIG`` names, else ``ett.toml`` if it exists.

    Raises:
        BadSettings: naming every setting at fault, never its value.
    """
    named = file or (Path(environ["ETT_CONFIG"]) if environ.get("ETT_CONFIG") else None)
    path = named or DEFAULT_FILE
    from_file = _read(path) if named or path.is_file() else {}
    from_environment = _variables(environ)
    names = Settings.model_fields
    sources = dict.fromkeys(names, "default")
    sources |= dict.fromkeys(from_file, str(path))
    sources |= {name: variable(name) for name in from_environment}
    try:
        settings = Settings.model_validate(from_file | from_environment)
        _require_own_password(settings, environ)
    except ValidationError as error:
        raise BadSettings(_faults(error, sources)) from None
    return Loaded(settings, sources)


def _require_own_password(settings: Settings, environ: Mapping[str, str]) -> None:
    """Refuse a placeholder in the variable that libpq reads, too."""
    is_read = settings.database_url.startswith("postgresql")
    if is_read and environ.get("PGPASSWORD") in PLACEHOLDERS:
        raise BadSettings(f"PGPASSWORD: {_PLACEHOLDER}")


def variable(name: str) -> str:
    """Name the environment variable of a setting."""
    return PREFIX + name.upper()


def _midnight_us(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * SECOND_US


def _read(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadSettings(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path} is not TOML: {error}") from error
    _refuse_unknown(content, Settings.model_fields, f"{path}: ")
    return content


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    settings = {variable(name): name for name in Settings.model_fields}
    ours = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    _refuse_unknown(ours, {*settings, *OTHER_VARIABLES}, "environment: ")
    return {settings[name]: value for name, value in ours.items() if name in settings}


def _refuse_unknown(given: Iterable[str], known_names: Iterable[str], where: str) -> None:
    known_names = sorted(known_names)
    faults = []
    for name in sorted(set(given) - set(known_names)):
        near = difflib.get_close_matches(name, known_names, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        faults.append(f"{where}{name} is not a setting{meant}")
    if faults:
        raise BadSettings("\n".join(faults))


def _faults(error: ValidationError, sources: Mapping[str, str]) -> str:
    lines = []
    for fault in error.errors(include_url=False, include_input=False):
        name, *inner = map(str, fault["loc"])
        place = "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in inner)
        message = fault["msg"].removeprefix("Value error, ")
        lines.append(f"{name}{place} (from {sources[name]}): {message[0].lower()}{message[1:]}")
    return "\n".join(lines)
