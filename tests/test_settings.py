import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.setting_tables import PLACEHOLDERS, Row
from ett_service.settings import OTHER_VARIABLES, BadSettings, Settings, load, variable
from tests.builders.clock import NOON

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_file_and_environment_the_defaults_hold() -> None:
    loaded = load({})
    assert loaded.settings == Settings()
    assert set(loaded.sources.values()) == {"default"}


def test_the_environment_wins_over_the_file_and_the_file_over_the_default() -> None:
    Path("ett.toml").write_text("port = 9000\nhost = '0.0.0.0'\n")
    loaded = load({"ETT_PORT": "9001", "PATH": "/bin"})
    assert (loaded.settings.port, loaded.settings.host) == (9001, "0.0.0.0")  # noqa: S104
    assert loaded.sources["port"] == "ETT_PORT"
    assert loaded.sources["host"] == "ett.toml"
    assert loaded.sources["log_level"] == "default"


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(BadSettings, match=r"missing\.toml cannot be read: No such file"):
        load({"ETT_CONFIG": str(missing)})


@pytest.mark.parametrize(
    ("content", "environ", "message"),
    [
        ("prot = 1", {}, "ett.toml: prot is not a setting; did you mean port?"),
        ("", {"ETT_PROT": "1"}, "environment: ETT_PROT is not a setting; did you mean ETT_PORT?"),
        ("", {"ETT_ZZZZZZ": "1"}, "environment: ETT_ZZZZZZ is not a setting"),
        ("", {"ETT_PORT": "no"}, "port (from ETT_PORT): input should be a valid integer"),
        ("port = 65536", {}, "port (from ett.toml): input should be less than or equal to 65535"),
        ("lost_after_seconds = 0", {}, "lost_after_seconds (from ett.toml): input should be great"),
        ("", {"ETT_DATABASE_URL": "mysql://h/d"}, "database_url (from ETT_DATABASE_URL): must sta"),
        ("port =", {}, "ett.toml is not TOML: "),
        ("secret_key = 'change-me'", {}, "secret_key (from ett.toml): has an example's word"),
        ("", {"ETT_SECRET_KEY": f"{'k' * 32}, changeme"}, "secret_key (from ETT_SECRET_KEY): has"),
        (
            "",
            {"ETT_DATABASE_URL": "postgresql+psycopg://ett:change-me@db/ett"},
            "database_url (from ETT_DATABASE_URL): has an example's word",
        ),
        (
            "",
            {"ETT_DATABASE_URL": "postgresql+psycopg://ett@db/ett", "PGPASSWORD": "change-me"},
            "PGPASSWORD: has an example's word",
        ),
        ("", {"ETT_LOG_FORMAT": "xml"}, "log_format (from ETT_LOG_FORMAT): input should be 'text'"),
        ("", {"ETT_WORKER_POLL_SECONDS": "nan"}, "worker_poll_seconds (from ETT_WORKER_POLL_SEC"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    content: str, environ: dict[str, str], message: str
) -> None:
    Path("ett.toml").write_text(content)
    with pytest.raises(BadSettings) as refused:
        load(environ)
    assert message in str(refused.value)


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(BadSettings) as refused:
        load({"ETT_PORT": "x", "ETT_LOG_LEVEL": "loud"})
    assert "ETT_PORT" in str(refused.value)
    assert "ETT_LOG_LEVEL" in str(refused.value)


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(BadSettings) as refused:
        load({"ETT_DATABASE_URL": "mysql://ett:hunter2@h/d", "ETT_PORT": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_variables_of_the_client_are_no_settings_and_not_refused() -> None:
    environ = {"ETT_JOB": "j", "ETT_URL": "http://localhost", "ETT_API_KEY": "k"}
    assert load(environ).settings == Settings()


def test_every_variable_that_the_client_reads_is_known() -> None:
    sources = (path.read_text("utf-8") for path in (ROOT / "ett_service/client").rglob("*.py"))
    named = {name for source in sources for name in re.findall(r"\bETT_[A-Z_]+\b", source)}
    assert named - OTHER_VARIABLES == set()


def test_there_are_few_enough_settings_to_read() -> None:
    fields = Settings.model_fields.values()
    choices = [field for field in fields if not isinstance(field.default, tuple | Row)]
    assert len(choices) <= 25


def test_the_record_is_kept_for_as_long_as_the_search_reads_it() -> None:
    with pytest.raises(BadSettings, match=r"retention_days .*ETT_RETENTION_DAYS.*at least 56"):
        load({"ETT_RETENTION_DAYS": "55"})
    assert load({"ETT_RETENTION_DAYS": "56"}).settings.retention_days == 56
    shorter = '{"recent_days": 3, "baseline_days": 9}'
    loaded = load({"ETT_RETENTION_DAYS": "12", "ETT_DETECTION": shorter})
    assert loaded.settings.retention_days == 12


def test_hours_are_kept_for_as_long_as_searches_and_pages_read_them() -> None:
    with pytest.raises(BadSettings, match=r"ETT_ROLLUPS.*hourly_days must be .*at least 57"):
        load({"ETT_ROLLUPS": '{"hourly_days": 56}'})
    assert load({"ETT_ROLLUPS": '{"hourly_days": 57}'}).settings.rollups.hourly_days == 57
    longer = '{"recent_days": 30, "baseline_days": 90}'
    with pytest.raises(BadSettings, match="at least 121"):
        load({"ETT_ROLLUPS": '{"hourly_days": 120}', "ETT_DETECTION": longer})
    shorter = '{"recent_days": 3, "baseline_days": 9}'
    with pytest.raises(BadSettings, match="at least 57"):
        load({"ETT_ROLLUPS": '{"hourly_days": 13}', "ETT_DETECTION": shorter})


def test_the_limits_of_the_fold_are_microseconds() -> None:
    limits = Settings(lost_after_seconds=1, queue_lost_after_seconds=2).limits
    assert (limits.lost_after_us, limits.queue_lost_after_us) == (1_000_000, 2_000_000)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_each_setting_is_documented_with_its_default(name: str) -> None:
    default = Settings.model_fields[name].default
    if isinstance(default, Row):
        shown = default.model_dump_json()
    else:
        shown = json.dumps(default) if isinstance(default, bool | tuple) else str(default)
    row = f"| `{name}` | `{variable(name)}` | {f'`{shown}`' if shown else '(empty)'} |"
    assert row in (ROOT / "docs" / "operations.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(OTHER_VARIABLES))
def test_each_variable_that_is_no_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "operations.md").read_text("utf-8")


def test_prices_peak_rates_and_targets_are_read_alike_from_the_file_and_the_environment(
    tmp_path: Path,
) -> None:
    file = tmp_path / "ett.toml"
    file.write_text(
        '[[prices]]\nhardware = "H100"\nfrom = 2026-03-01\nper_gpu_hour = 2.1\n'
        '[[peak_rates]]\nhardware = "X1"\nprecision = "bf16"\nteraflops = 10\n'
        '[[targets]]\nwhere = {team = "a"}\nett_ratio = 0.9\n',
        "utf-8",
    )
    environ = {
        "ETT_PRICES": '[{"hardware": "H100", "from": "2026-03-01", "per_gpu_hour": 2.1}]',
        "ETT_PEAK_RATES": '[{"hardware": "X1", "precision": "bf16", "teraflops": 10}]',
        "ETT_TARGETS": '[{"where": {"team": "a"}, "ett_ratio": 0.9}]',
    }
    settings = load({}, file).settings
    assert settings == load(environ).settings
    economy = settings.economy
    assert economy.price("h100", NOON) == Fraction("2.1")
    assert economy.price("h100", NOON - DAY_US) is None
    assert economy.peak_teraflops("x1", "bf16") == 10
    assert economy.target({"team": "a"}) == 0.9


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ETT_PRICES", "hunter2", "prices (from ETT_PRICES): is not JSON"),
        ("ETT_PRICES", '[{"hardware": "hunter2"}]', "prices[0].from (from ETT_PRICES): field req"),
        ("ETT_TARGETS", '[{"ett_ratio": 90}]', "targets[0].ett_ratio (from ETT_TARGETS)"),
        ("ETT_TARGETS", '[{"ett_ratio": 0.9, "where": {"x": "a"}}]', "targets[0].where.x"),
        ("ETT_CURRENCY", "hunter2", "currency (from ETT_CURRENCY)"),
        (
            "ETT_PRICES",
            json.dumps(
                [{"hardware": name, "from": "2026-03-01", "per_gpu_hour": 1} for name in "Xx"]
            ),
            "two prices of the same hardware begin on the same day",
        ),
        (
            "ETT_RECEIVERS",
            '[{"name": "a", "url": "https://hunter2"}, {"name": "a", "url": "https://hunter2"}]',
            "two receivers have the same name",
        ),
        (
            "ETT_RECEIVERS",
            '[{"name": "a", "url": "https://hunter2", "where": {"team": "nlp"}}]',
            "where may name project and the dimensions of detection.cohort",
        ),
        (
            "ETT_RECEIVERS",
            '[{"name": "a", "url": "https://hunter2", "format": "pagerduty"}]',
            "pagerduty needs its routing key as secret",
        ),
    ],
)
def test_an_entry_of_a_table_that_is_wrong_is_named_by_its_place(
    name: str, text: str, message: str
) -> None:
    with pytest.raises(BadSettings) as refused:
        load({name: text})
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_password_of_libpq_is_not_looked_at_where_nothing_reads_it() -> None:
    assert load({"PGPASSWORD": "change-me"}).settings.database_url.startswith("sqlite")


def test_the_deployment_refuses_the_same_words() -> None:
    script = (ROOT / "deploy" / "roles.sh").read_text()
    (words,) = re.findall(r"^ +(\S+(?: \| \S+)+)\)$", script, re.MULTILINE)
    assert set(words.split(" | ")) == PLACEHOLDERS
