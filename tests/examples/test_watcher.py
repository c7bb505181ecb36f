"""The watcher's manifest: objects that Kubernetes takes, and no more rights than are used."""

import kubernetes_validate
import pytest
import yaml

from ett_service.cli.record.watch import VERB
from ett_service.watchers.kubernetes_api import KINDS
from tests.examples.pod import KUBERNETES

OBJECTS = list(yaml.safe_load_all((KUBERNETES / "watcher.yaml").read_text()))
BY_KIND = {each["kind"]: each for each in OBJECTS}


@pytest.mark.parametrize("version", ["1.29", "1.36"])
def test_kubernetes_takes_every_object(version: str) -> None:
    for each in OBJECTS:
        kubernetes_validate.validate(each, version, strict=True)


def test_the_role_allows_to_list_and_watch_what_is_watched_and_nothing_else() -> None:
    rules = BY_KIND["ClusterRole"]["rules"]
    assert all(each["verbs"] == ["list", "watch"] for each in rules)
    allowed = {(*each["apiGroups"], name) for each in rules for name in each["resources"]}
    assert allowed == {(kind.group, kind.plural) for kind in KINDS}


def test_the_objects_find_each_other() -> None:
    binding, pod = BY_KIND["ClusterRoleBinding"], BY_KIND["Deployment"]["spec"]["template"]["spec"]
    account = BY_KIND["ServiceAccount"]["metadata"]["name"]
    assert pod["serviceAccountName"] == binding["subjects"][0]["name"] == account
    assert binding["roleRef"]["name"] == BY_KIND["ClusterRole"]["metadata"]["name"]


def test_its_command_is_one() -> None:
    (container,) = BY_KIND["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["watch", "kubernetes"]
    assert "kubernetes" in VERB.acts
