import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.conftest import ROOT, Parsed

HADOLINT = Path(sys.executable).with_name("hadolint")
DOCKERFILE = ROOT / "Dockerfile"
REQUIREMENTS = ROOT / "deploy" / "requirements.txt"
FOR_THE_BUILD = ROOT / "deploy" / "build-requirements.txt"


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, rest) for line in lines if line for word, _, rest in [line.partition(" ")]]


def _of(word: str) -> list[str]:
    return [rest for instruction, rest in _instructions() if instruction == word]


def _last_stage() -> list[tuple[str, str]]:
    instructions = _instructions()
    begins = [index for index, (word, _) in enumerate(instructions) if word == "FROM"]
    return instructions[begins[-1] :]


def test_the_linter_has_nothing_to_say() -> None:
    done = subprocess.run([HADOLINT, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_one_interpreter_of_one_version_is_in_every_stage() -> None:
    first, *others = _of("FROM")
    assert re.match(r"python:3\.1[1-9]\.\d+-slim-[a-z]+ AS interpreter$", first)
    assert {stage.split()[0] for stage in others} == {"interpreter"}


def test_the_image_runs_as_the_user_that_the_deployments_name(services: Parsed) -> None:
    (user,) = _of("USER")
    assert ("USER", user) in _last_stage()
    assert user == services["ett"]["user"]
    assert user == "10001:10001"


def test_the_last_stage_takes_over_the_environment_and_nothing_to_build_with() -> None:
    copied = [rest for word, rest in _last_stage() if word == "COPY"]
    assert copied == ["--from=environment /venv /venv"]
    installs = " ".join(rest for word, rest in _last_stage() if word == "RUN")
    assert "apt-get" not in installs
    assert "pip uninstall" in installs


def test_what_is_copied_is_there_and_let_through() -> None:
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for rest in _of("COPY")
        if not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert copied == allowed
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_wheel_is_built_from_all_that_goes_into_it() -> None:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    wheel = hatch["build"]["targets"]["wheel"]
    copied = tuple(" ".join(_of("COPY")).split())
    for source in (*wheel["packages"], *wheel["force-include"]):
        assert any(f"{source}/".startswith(f"{folder}/") for folder in copied), source


def test_the_image_is_labelled_with_the_version_that_it_holds() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    (labels,) = _of("LABEL")
    assert f'org.opencontainers.image.version="{version}"' in labels


def test_the_image_asks_itself_what_compose_asks_it(services: Parsed) -> None:
    (check,) = _of("HEALTHCHECK")
    health_check = services["ett"]["healthcheck"]["test"][-1]
    assert f'"{health_check}"' in check
    assert _of("ENTRYPOINT") == ['["ett"]']
    assert _of("CMD") == ['["serve", "--first-key", "/data/first-key"]']


def _pinned(file: Path) -> dict[str, str]:
    """Return the versions of what is installed on Linux; each has hashes of its files."""
    content = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    pins: dict[str, str] = {}
    for line in content.splitlines():
        text, *hashes = line.split(" --hash=sha256:")
        requirement = Requirement(text)
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch("[0-9a-f]{64}", digest.strip()) for digest in hashes)
        if requirement.marker is None or requirement.marker.evaluate():
            (version,) = (specifier.version for specifier in requirement.specifier)
            pins[canonicalize_name(requirement.name)] = version
    return pins


_PINNED = _pinned(REQUIREMENTS)


def _needed(name: str, extras: frozenset[str], requirements: dict[str, list[Requirement]]) -> None:
    for text in distribution(name).requires or []:
        needed = Requirement(text)
        marker = needed.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            continue
        canonical = canonicalize_name(needed.name)
        is_listed = canonical in requirements
        # What a later release of a package needs says nothing about the one that is pinned.
        is_pinned = _PINNED.get(canonicalize_name(name), version(name)) == version(name)
        requirements.setdefault(canonical, []).extend([needed] if is_pinned else [])
        if not is_listed or needed.extras:
            _needed(needed.name, frozenset(needed.extras), requirements)


def test_every_package_in_the_image_has_one_version_that_all_who_need_it_take() -> None:
    needed: dict[str, list[Requirement]] = {}
    _needed("ett-service", frozenset({"server", "kubernetes"}), needed)
    assert set(needed) == set(_PINNED)
    for name, requirements in needed.items():
        pin = _PINNED[name]
        assert all(requirement.specifier.contains(pin) for requirement in requirements), name


def test_what_builds_the_package_is_pinned_and_nothing_is_installed_without_a_hash() -> None:
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    pinned = _pinned(FOR_THE_BUILD)
    for text in system["requires"]:
        needed = Requirement(text)
        assert needed.specifier.contains(pinned[canonicalize_name(needed.name)])
    (build,) = (rest for rest in _of("RUN") if "-m build" in rest)
    assert "--no-isolation" in build
    installs = [step for rest in _of("RUN") for step in rest.split("&&") if " install " in step]
    pip_installs = [step for step in installs if "pip" in step.split()]
    assert len(pip_installs) == 3
    assert all("--require-hashes" in step or "--no-index" in step for step in pip_installs)
