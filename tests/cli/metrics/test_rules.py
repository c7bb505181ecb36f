from pathlib import Path

import pytest
import yaml

from ett_service.cli.main import main
from ett_service.metrics.rules.files import files, one_file
from ett_service.metrics.rules.rule import Links, Objective


def test_rules_are_written_as_files_beside_a_table_of_when_they_fire(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rules", "--output", "rules"]) == 0
    written = {
        str(path.relative_to("rules")): path.read_text("utf-8")
        for path in Path("rules").rglob("*.yaml")
    }
    assert written == files(Objective(), Links())
    printed = " ".join(capsys.readouterr().out.split())
    assert "EttBudgetBurnFast page 3x 6h 30m 30% ineffective 10d 2.5%" in printed
    assert "EttBudgetBurnSlow ticket 1.3x 3d 6h 13% ineffective 23.1d 13%" in printed


def test_without_a_folder_all_rules_are_printed_as_one_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rules"]) == 0
    assert capsys.readouterr().out == one_file(Objective(), Links())


def test_links_lead_to_the_given_address(capsys: pytest.CaptureFixture[str]) -> None:
    links = ["--runbook-url", "https://docs.test/r/", "--dashboard-url", "https://g.test"]
    assert main(["rules", "--kubernetes", *links]) == 0
    groups = yaml.safe_load(capsys.readouterr().out)["spec"]["groups"]
    down = next(
        rule for group in groups for rule in group["rules"] if rule.get("alert") == "EttDown"
    )
    assert down["annotations"]["runbook_url"] == "https://docs.test/r/ettdown.md"
    assert down["annotations"]["dashboard_url"] == "https://g.test/d/ett-service"


def test_without_an_address_they_lead_to_the_service_or_nowhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["rules"]) == 0
    assert "_url" not in capsys.readouterr().out
    monkeypatch.setenv("ETT_PUBLIC_URL", "https://ett.test/")
    assert main(["rules"]) == 0
    printed = capsys.readouterr().out
    assert "runbook_url: https://ett.test/docs/runbooks/ettdown.md" in printed
    assert "dashboard_url" not in printed


def test_a_target_for_which_an_alert_could_never_fire_is_refused_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rules", "--target", "0.6", "--output", "rules"]) == 1
    output = capsys.readouterr()
    assert "3 times a budget of 40% is 120% of all time" in output.err
    assert "factor must be below 2.5; at this factor the target must be above 66.67%" in output.err
    assert (output.out, Path("rules").exists()) == ("", False)


def test_the_factor_that_was_proposed_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--target", "0.6", "--fast-factor", "2.4", "--output", "rules"]) == 0
    assert "96% ineffective" in capsys.readouterr().out


def test_the_guide_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "howto" / "alerts.md").read_text("utf-8")
    assert main(["rules", "--target", "0.85", "--output", "rules"]) == 0
    assert capsys.readouterr().out.partition("\n\n")[2] in guide
    assert main(["rules", "--target", "0.6"]) == 1
    assert capsys.readouterr().err in guide


@pytest.mark.parametrize("text", ["much", "nan", "inf", "1e999", "1/0"])
def test_what_is_no_number_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["rules", "--target", text])
    assert "is not a number, such as 0.9" in capsys.readouterr().err
