"""What Grafana is provisioned with names what is there, and what Compose gives it."""

import re
from pathlib import Path
from typing import Any

import yaml

from dashboards.build import PACKS
from dashboards.build.alerting import COPY, DATASOURCE_UID, EXPRESSIONS_UID, alerting
from dashboards.build.kit import Source
from ett_service.metrics.rules.files import groups
from ett_service.metrics.rules.rule import COMPOSE, Alert, Objective
from ett_service.storage.schema.views import READER

ROOT = Path(__file__).parents[2]
PROVISIONING = ROOT / "dashboards" / "provisioning"
COPIED = ROOT / "dashboards" / COPY
ENVIRONMENT = re.compile(r"(?<!\$)\$([A-Z][A-Z_]+)")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def grafana() -> Any:
    """Return Grafana as Compose runs it."""
    return read(ROOT / "docker-compose.yml")["services"]["grafana"]


def test_compose_gives_the_datasources_all_that_they_ask_for() -> None:
    text = (PROVISIONING / "datasources" / "ett.yaml").read_text("utf-8")
    used = set(ENVIRONMENT.findall(text.partition("apiVersion")[2]))
    documented = set(re.findall(r"^# ([A-Z][A-Z_]+)\b", text, re.MULTILINE))

    assert used == documented
    assert used <= grafana()["environment"].keys()


def test_the_datasources_are_those_that_the_dashboards_ask() -> None:
    datasources = read(PROVISIONING / "datasources" / "ett.yaml")["datasources"]

    assert {datasource["type"] for datasource in datasources} == {source.value for source in Source}
    assert len({datasource["uid"] for datasource in datasources}) == len(datasources)
    assert not any(datasource["editable"] for datasource in datasources)
    assert [datasource["name"] for datasource in datasources if datasource.get("isDefault")] == [
        "ETT Prometheus"
    ]


def test_postgresql_is_read_by_a_role_that_may_do_nothing_else() -> None:
    name = grafana()["environment"]["READER_NAME"]
    roles = (ROOT / "deploy" / "roles.sh").read_text("utf-8")

    assert re.search(rf"CREATE ROLE {name} LOGIN .* IN ROLE {READER};", roles)


def test_every_pack_is_mounted_where_its_folder_is_looked_for() -> None:
    providers = read(PROVISIONING / "dashboards" / "ett.yaml")["providers"]
    mounts = {
        inside: outside
        for outside, inside, *_ in (volume.split(":") for volume in grafana()["volumes"])
    }

    looked_for = {mounts[provider["options"]["path"]] for provider in providers}
    assert looked_for == {f"./dashboards/{pack.folder}" for pack in PACKS}
    assert len({provider["folderUid"] for provider in providers}) == len(providers)
    for folder in ("datasources", "dashboards"):
        assert mounts[f"/etc/grafana/provisioning/{folder}"] == (
            f"./dashboards/provisioning/{folder}"
        )


def test_the_copy_of_the_alerts_is_the_one_that_the_rules_give() -> None:
    assert COPIED.read_text("utf-8") == alerting(Objective(), COMPOSE)


def test_grafana_loads_no_alert_unless_somebody_enables_it() -> None:
    names = [path.name for path in (PROVISIONING / "alerting").iterdir()]

    assert names == [COPIED.name]
    assert not any(name.endswith((".yaml", ".yml", ".json")) for name in names)
    assert "never both" in COPIED.read_text("utf-8")


def test_every_alert_of_the_rules_is_in_the_copy_and_asks_what_it_asks() -> None:
    alerts = {
        rule.alert: rule
        for of_file in groups(Objective()).values()
        for group in of_file
        for rule in group.rules
        if isinstance(rule, Alert)
    }
    copied = [rule for group in read(COPIED)["groups"] for rule in group["rules"]]

    assert {rule["title"] for rule in copied} == alerts.keys()
    for rule in copied:
        query, *rest = rule["data"]
        assert query["model"]["expr"] == alerts[rule["title"]].expr
        assert query["datasourceUid"] == DATASOURCE_UID
        assert {expression["datasourceUid"] for expression in rest} == {EXPRESSIONS_UID}
        assert rule["condition"] == rest[-1]["refId"]
        assert rule["labels"]["severity"] == alerts[rule["title"]].severity
        assert not any("$" in text for text in rule["annotations"].values())


def test_the_copy_asks_a_datasource_that_is_provisioned() -> None:
    datasources = read(PROVISIONING / "datasources" / "ett.yaml")["datasources"]

    assert {"uid": DATASOURCE_UID, "type": Source.PROMETHEUS.value} in [
        {"uid": datasource["uid"], "type": datasource["type"]} for datasource in datasources
    ]
