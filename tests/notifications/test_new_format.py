"""A new format of webhooks is one new file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "ett_service"
SCRATCH = '''
"""Scratch: a format of a test."""

from typing import Any

from ett_service.notifications.notice import Notice
from ett_service.notifications.receiver import Receiver, Secret, WebhookFormat


def render(notice: Notice, receiver: Receiver, most: int) -> dict[str, Any]:
    return {"key": receiver.secrets[0], "id": notice.id}


FORMAT = WebhookFormat(
    name="scratch", render=render, secret=Secret.ROUTING_KEY, content_type="application/scratch"
)
'''
PROGRAM = """
import json
from ett_service.api.app import create_app
from ett_service.notifications.formats import FORMATS, render
from ett_service.notifications.receiver import Receiver
from ett_service.settings import Settings
from tests.builders.receivers.notices import NOTICE

row = {"name": "a", "url": "https://a.example", "format": "scratch"}
(receiver,) = Settings.model_validate({"receivers": [row | {"secret": "key"}]}).configured_receivers
try:
    Settings.model_validate({"receivers": [row]})
    refused = ""
except ValueError as error:
    refused = str(error)
document = create_app(None).openapi()
body = document["paths"]["/v1/receivers"]["post"]["requestBody"]["content"]["application/json"]
print(json.dumps({
    "formats": [*FORMATS],
    "body": json.loads(render(NOTICE, receiver)),
    "refused": refused,
    "answered": document["components"]["schemas"]["Format"]["enum"],
    "accepted": body["schema"]["properties"]["format"]["enum"],
}))
"""
COMMAND = "from ett_service.cli.main import main; main()"
ADD = ("receivers", "add", "--help")
FORMATS = ["generic", "slack", "pagerduty", "teams", "alertmanager", "scratch"]


def test_settings_api_and_command_line_know_a_format_from_its_file_alone(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "ett_service", ignore=ignored)
    (tmp_path / "ett_service/notifications/formats/scratch.py").write_text(SCRATCH)
    path = os.pathsep.join((str(tmp_path), str(PACKAGE.parent)))

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        )  # fmt: skip
        return done.stdout

    printed = json.loads(run("-c", PROGRAM))
    assert printed["formats"] == printed["answered"] == printed["accepted"] == FORMATS
    assert printed["body"] == {"key": "key", "id": "01JCXK7V4W"}
    assert "scratch needs its routing key as secret" in printed["refused"]
    assert "alertmanager,scratch" in run(
        "-c", "from ett_service.cli.main import main; main()", *ADD
    )
