import json
from pathlib import Path
from typing import Any

import pytest

from ett_service.cli.main import main
from tests.builders.servers.ett import Server

ROOT = Path(__file__).parents[3]
CLIMATE = ("estimate", "--flops", "5.04e21", "--mfu", "42%", "--accelerators", "64")
ON_A100 = (*CLIMATE, "--hardware", "A100")
PRICES = '[[prices]]\nhardware = "A100"\nfrom = 2020-01-01\nper_gpu_hour = 3.5\n'


def printed_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run the verb for its JSON."""
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_estimate_needs_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ON_A100, "--price", "3.5", "--discount", "65%", "--interval", "30m"]) == 0

    printed = capsys.readouterr().out
    assert "on demand  10,684  6d 23h  USD 37,393" in printed
    assert "spot       10,684  6d 23h  USD 13,088" in printed
    assert "ETT 100.0% (nothing lost)" in printed


@pytest.mark.parametrize(
    "more",
    [
        "--price 3.5",
        "--price 3.5 --discount 65% --interrupted-every 6h --restart 10m --interval 30m",
        (
            "--price 3.5 --scale 1024,16384,131072 --failures-per-node-day 0.0038 --save 60s"
            " --restart 10m"
        ),
    ],
)
def test_the_page_shows_what_is_printed(more: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = "--parameters 7e9 --tokens 120e9 --hardware A100 --mfu 42% --accelerators 64"
    page = (ROOT / "docs" / "howto" / "plan-a-run.md").read_text("utf-8")

    assert main(["estimate", *run.split(), *more.split()]) == 0
    *shown, _, assumed = capsys.readouterr().out.splitlines()
    assert assumed.startswith("Assumed: Accelerators run at MFU times their peak")
    last = shown[-4:-1] if "--scale" in more else shown[-3:]
    assert "\n".join(last) in page
    assert more.removeprefix("--price 3.5 ") in page


def test_the_price_is_that_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ett.toml").write_text(PRICES)
    estimate = printed_json(capsys, *ON_A100, "--ett", "90%")

    assert estimate["price_per_gpu_hour"] == 3.5
    assert estimate["on_demand"]["cost"] == pytest.approx(37_393.16 / 0.9, rel=1e-6)


def test_the_share_that_trains_may_be_measured(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    first, last = "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"
    measured = ("--measured", "--from", first, "--to", last)
    estimate = printed_json(capsys, *ON_A100, *measured, "--url", served.url, "--key", served.key)

    fleet = served.ask("GET", f"/v1/fleet/summary?from={first}&to={last}")["total"]
    assert (estimate["ett_from"], estimate["measured_jobs"]) == ("measured", fleet["jobs"])
    assert fleet["jobs"] > 0
    assert estimate["ett_ratio"] == pytest.approx(fleet["ett_ratio"])


def test_interruptions_take_time_from_spot_machines(capsys: pytest.CaptureFixture[str]) -> None:
    spot = ("--discount", "0.65", "--save", "15s", "--interrupted-every", "8h", "--restart", "10m")
    assert main([*ON_A100, *spot]) == 0

    printed = capsys.readouterr().out
    assert "Interruptions every 8h 00m leave 94.8% of the time" in printed
    assert "with a checkpoint every 15m 20s." in printed
    assert "between interruptions on." in printed
    assert "No price is known. Give one with --price or in the settings." in printed


def test_other_scales_follow_from_the_rate_of_failures(capsys: pytest.CaptureFixture[str]) -> None:
    scale = ("--scale", "1024,16384", "--failures-per-node-day", "0.0038", "--save", "60s")
    small, large = printed_json(capsys, *ON_A100, *scale, "--restart", "10m")["scales"]

    assert (small["accelerators"], large["accelerators"]) == (1024, 16_384)
    assert large["ett_ratio"] == pytest.approx(0.8523, abs=1e-3)
    assert large["on_demand"]["gpu_hours"] == pytest.approx(10_683.76 / large["ett_ratio"])
    assert main([*ON_A100, *scale, "--restart", "10m"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["16,384", "3h", "05m", "18m", "35s", "85.2%"] in [row[:6] for row in rows]


def test_a_scale_at_which_nothing_trains_has_no_hours(capsys: pytest.CaptureFixture[str]) -> None:
    scale = ("--scale", "1e6", "--failures-per-node-day", "1e6", "--interval", "1d")
    (point,) = printed_json(capsys, *ON_A100, *scale)["scales"]

    assert point["on_demand"] == {"gpu_hours": None, "wall_hours": None, "cost": None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("estimate", "--mfu", "0.4", "--accelerators", "8"), "--flops: Give it"),
        (CLIMATE, "--peak-teraflops: Give it"),
        ((*ON_A100, "--ett", "150%"), "--ett: It must lie above 0"),
        ((*ON_A100, "--discount", "0.5"), "--interval: Give it"),
        ((*ON_A100, "--discount", "0.5", "--interval", "0s"), "--interval: It must be positive"),
        ((*ON_A100, "--scale", "8"), "--failures-per-node-day: Give it"),
    ],
)
def test_what_is_missing_or_impossible_is_named_by_its_flag(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main(arguments) == 1
    assert message in capsys.readouterr().err
