"""The package as users get it: a wheel, in an environment that knows nothing of this checkout."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.builders.servers.ett import address_in
from tests.builders.servers.waiting import wait_for

ROOT = Path(__file__).parents[1]
DOCUMENTED = "http://127.0.0.1:8080"

pytestmark = [pytest.mark.wheel, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def _install(wheel: Path, folder: Path) -> Path:
    """Install nothing but *wheel* into a new environment and return its programs' folder."""
    venv.create(folder, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    install = ["install", "--no-index", "--no-deps", "--no-compile", "--quiet", str(wheel)]
    subprocess.run([*pip, *install], check=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def client_only(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel without any of its extras."""
    return _install(wheel, tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def with_server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel where the packages of ``[server]`` are.

    They come from the running environment, by a path, so that nothing is downloaded. A checkout
    installed there for development stays unseen: what makes it importable is not read by a path.
    """
    programs = _install(wheel, tmp_path_factory.mktemp("server"))
    (packages,) = programs.parent.glob("lib/python*/site-packages")
    (packages / "server.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


def _run(
    programs: Path, *command: str, cwd: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [programs / command[0], *command[1:]],
        cwd=cwd,
        env={"PATH": os.defpath, "HOME": str(cwd), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_what_lies_beside_the_package_travels_in_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    versions = {path.name for path in (ROOT / "migrations" / "versions").glob("*.py")}
    assert {Path(name).name for name in names if "/_migrations/versions/" in name} == versions
    beside = {name.partition("/_dashboards/")[2] for name in names if "/_dashboards/" in name}
    assert beside >= {
        "README.md", "prometheus/ett-fleet.json", "postgres/ett-sql-fleet.json",
        "rules/alerts.yaml", "provisioning/dashboards/ett.yaml",
    }  # fmt: skip
    assert {name for name in beside if name.endswith(".py")} == set()
    assert {f"ett_service/report/templates/report.{kind}" for kind in ("md", "html")} <= set(names)
    assert "ett_service/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"ett_service"}


def test_the_bench_of_detectors_stays_in_the_checkout(wheel: Path, with_server: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if "bench" in name or "otava" in name] == []
    refused = _run(with_server, "ett", "bench", "--help", cwd=with_server)
    assert refused.returncode == 2, refused.stdout
    assert "there is no verb 'bench'" in refused.stderr


def test_the_bare_wheel_depends_on_nothing(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
    required = re.findall(r"^Requires-Dist: (.*)$", archive.read(metadata).decode(), re.MULTILINE)
    assert [line for line in required if "extra ==" not in line] == []


def test_the_bare_wheel_is_a_client(client_only: Path, tmp_path: Path) -> None:
    program = "import ett_service as ett; print(ett.__file__); ett.init(job='j'); ett.end()"
    done = _run(client_only, "python", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(client_only.parent))


def test_the_bare_wheel_runs_a_command_and_syncs(client_only: Path, tmp_path: Path) -> None:
    ran = _run(client_only, "ett", "run", "--job", "j", "--", "sh", "-c", "exit 3", cwd=tmp_path)
    assert ran.returncode == 3, ran.stderr
    synced = _run(
        client_only, "ett", "sync", "--wait", "0", cwd=tmp_path, ETT_URL="http://127.0.0.1:1"
    )
    assert synced.returncode in {1, 4}
    assert "Traceback" not in synced.stderr


@pytest.mark.parametrize("verb", ["serve", "worker", "migrate", "jobs", "keys", "config", "report"])
def test_the_bare_wheel_says_how_to_get_the_rest(
    client_only: Path, tmp_path: Path, verb: str
) -> None:
    done = _run(client_only, "ett", verb, cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'ett-service[server]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_bare_wheel_can_be_diagnosed(client_only: Path, tmp_path: Path) -> None:
    done = _run(client_only, "ett", "doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "this is a client only" in done.stdout


@contextmanager
def _serving(programs: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Serve the database in *folder* and give the address and the first key."""
    with subprocess.Popen(
        [programs / "ett", "serve", "--port", "0"],
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            served_at = next(filter(None, map(address_in, process.stderr)))
            yield served_at, process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)


def _documented_curls() -> list[str]:
    blocks = re.findall(
        r"^```\w*\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return [block for block in blocks if block.startswith("curl ")]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_an_installed_server_takes_what_the_readme_sends(with_server: Path, tmp_path: Path) -> None:
    migrated = _run(with_server, "ett", "migrate", cwd=tmp_path)
    assert migrated.returncode == 0, migrated.stderr
    where = _run(
        with_server, "python", "-c", "print(__import__('ett_service').__file__)", cwd=tmp_path
    )
    assert where.stdout.startswith(str(with_server.parent))
    with _serving(with_server, tmp_path) as (url, key):
        send, *read = (command.replace(DOCUMENTED, url) for command in _documented_curls())
        assert _curl(send, key)["accepted"] > 0
        assert read
        for command in read:
            wait_for(partial(_is_known, command, key))


def _curl(command: str, key: str) -> dict[str, Any]:
    done = subprocess.run(
        ["bash", "-euc", command],
        env={"PATH": os.environ["PATH"], "ETT_API_KEY": key},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _is_known(command: str, key: str) -> bool:
    return _curl(command, key).get("status") != 404
