"""Whether the kernel killed for want of memory, by files of control groups and a real one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ett_service.client.starting.memory import MemoryKills, as_evidence, killed_for_memory
from ett_service.client.torch.agent import tell_failure
from tests.builders.servers.web import serving
from tests.builders.trainers import environment, spooled

LIMIT = 96 << 20
HUNGRY = ("sh", "-c", "tail /dev/zero")  # it looks for a line's end
HYBRID = "9:name=systemd:/\n4:memory:/jobs/7\n0::/\n"


def process(folder: Path, groups: str, *mounts: tuple[str, str, str, str]) -> Path:
    """Make the files of a process; a mount is its kind, root, place and options."""
    folder.mkdir(exist_ok=True)
    (folder / "cgroup").write_text(groups)
    lines = [
        f"14 35 0:32 {root} {folder / place} rw,relatime - {kind} cgroup {options}\n"
        for kind, root, place, options in mounts
    ]
    (folder / "mountinfo").write_text("25 1 8:1 / / rw - ext4 /dev/sda rw\n" + "".join(lines))
    return folder


def counting(path: Path, kills: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"low 0\noom_kill_disable 0\noom 9\noom_kill {kills}\n")


@pytest.mark.parametrize(
    ("groups", "mount", "file"),
    [
        ("0::/a/b\n", ("cgroup2", "/", "v2", "rw"), "v2/a/b/memory.events"),
        ("0::/\n", ("cgroup2", "/", "v2", "rw"), "v2/memory.events"),
        (HYBRID, ("cgroup", "/", "v1", "rw,memory"), "v1/jobs/7/memory.oom_control"),
        (HYBRID, ("cgroup", "/jobs/7", "v1", "rw,memory"), "v1/memory.oom_control"),
        (HYBRID, ("cgroup", "/other", "v1", "rw,memory"), "v1/memory.oom_control"),
    ],
)
def test_the_counter_is_that_of_the_group_of_the_process(
    tmp_path: Path, groups: str, mount: tuple[str, str, str, str], file: str
) -> None:
    proc = process(tmp_path, groups, mount, ("cgroup", "/", "cpu", "rw,cpu"))
    counting(tmp_path / file, 3)
    assert killed_for_memory(proc) == 3


def test_a_second_version_that_counts_nothing_leaves_it_to_the_first(tmp_path: Path) -> None:
    both = (("cgroup2", "/", "v2", "rw"), ("cgroup", "/", "v1", "rw,memory"))
    proc = process(tmp_path, HYBRID, *both)
    counting(tmp_path / "v1/jobs/7/memory.oom_control", 1)
    assert killed_for_memory(proc) == 1


@pytest.mark.parametrize("groups", ["", "garbled\n", "0::/\n"])
def test_where_nothing_counts_nothing_is_reported(tmp_path: Path, groups: str) -> None:
    assert killed_for_memory(process(tmp_path, groups)) is None
    assert killed_for_memory(tmp_path / "none") is None
    assert MemoryKills(tmp_path).since() == 0


def test_each_kill_is_counted_once_and_those_before_are_not(tmp_path: Path) -> None:
    proc = process(tmp_path, "0::/\n", ("cgroup2", "/", "v2", "rw"))
    counting(tmp_path / "v2/memory.events", 5)
    kills = MemoryKills(proc)
    assert kills.since() == 0
    counting(tmp_path / "v2/memory.events", 7)
    assert (kills.since(), kills.since()) == (2, 0)


@pytest.mark.parametrize(
    ("ending", "kills", "names_memory"),
    [
        ({"signal": 9}, 1, True),
        ({"exit_code": 137}, 2, True),
        ({"signal": 9}, 0, False),
        ({"exit_code": 1}, 1, False),
        ({"signal": 15}, 1, False),
        ({"exit_code": 0}, 1, False),
    ],
)
def test_only_what_was_killed_is_put_down_to_memory(
    ending: dict[str, object], kills: int, names_memory: bool
) -> None:
    assert ("oom_kill" in str(as_evidence(ending, kills).get("message"))) is names_memory


def test_an_agent_says_it_of_its_worker(tmp_path: Path) -> None:
    class Killed:
        exitcode, pid = -9, 7

    tell_failure(environment(tmp_path), 3, Killed, 0, memory_kills=1)
    (ended,) = spooled(tmp_path)
    assert (ended["signal"], ended["attributes"]["failed_rank"]) == (9, 3)
    assert ended["message"].startswith("rank 3: oom_kill")


@contextmanager
def limited() -> Iterator[Path]:
    """Make a control group of little memory, where this machine lets us."""
    v1 = Path("/sys/fs/cgroup/memory")
    parent, limit = (v1, "limit_in_bytes") if v1.is_dir() else (v1.parent, "max")
    group = parent / f"ett-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / f"memory.{limit}").write_text(str(LIMIT))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield group
    finally:
        group.rmdir()


def test_a_command_that_the_kernel_kills_for_want_of_memory_says_so(tmp_path: Path) -> None:
    start = "import sys; from ett_service.cli.main import main; sys.exit(main())"
    join = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    with serving() as web, limited() as group:
        done = subprocess.run(
            ["sh", "-c", join, group, sys.executable, "-c", start, "run", "--", *HUNGRY],
            env=environment(tmp_path, web.url),
            capture_output=True,
            timeout=120,
            check=False,
        )
        (ended,) = (event for event in web.events if event["type"] == "attempt_ended")
    assert done.returncode == 137
    assert "oom_kill" in ended["message"]
