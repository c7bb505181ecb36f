"""``ett watch kubernetes``, as people call it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ett_service.cli.main import main
from tests.builders import kubernetes as k8s
from tests.builders.kubernetes_api import ApiServer, api_server, kubeconfig
from tests.builders.servers.web import serving

JOB = k8s.owner("Job", "llm")
POD = k8s.pod("llm-a", JOB, 1, scheduled=2, container=k8s.running(3))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    with api_server() as state:
        path = tmp_path / "config"
        path.write_text(json.dumps(kubeconfig(state.url)))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
        yield state


def test_one_look_sends_what_the_cluster_knows_as_news(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(k8s.job("llm"), POD)
    with serving() as web:
        options = ["--once", "--url", web.url, "--key", "ett_k", "--cluster", "west", "--json"]
        assert main(["watch", "kubernetes", *options]) == 0
        (got,) = web.received
    printed = capsys.readouterr()
    assert got.batch["history"] is False
    assert {event["job"] for event in got.batch["events"]} == {"llm"}
    assert {event.get("cluster") for event in got.batch["events"]} == {"west", None}
    assert json.loads(printed.out)["jobs"] == 1
    assert "the cluster has no trainjobs: they are left out" in printed.err


def test_one_look_at_a_namespace_asks_for_no_more(server: ApiServer) -> None:
    server.absent.clear()
    with serving() as web:
        main(["watch", "kubernetes", "--once", "--url", web.url, "--namespace", "research"])
    assert "/api/v1/namespaces/research/pods?limit=500" in server.requests
    assert not any(each.startswith("/api/v1/pods") for each in server.requests)


def test_a_machine_without_a_configuration_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = str(tmp_path / "none")
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", where)
    assert main(["watch", "kubernetes", "--once"]) == 1
    assert "Kubernetes is not configured" in capsys.readouterr().err


def test_a_machine_without_the_client_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "ett_service.watchers.kubernetes_api", raising=False)
    monkeypatch.delattr("ett_service.watchers.kubernetes_api", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert main(["watch", "kubernetes", "--once"]) == 1
    assert "pip install 'ett-service[server,kubernetes]'" in capsys.readouterr().err
