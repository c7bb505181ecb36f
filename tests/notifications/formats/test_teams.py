"""What Teams reads."""

from dataclasses import replace

from ett_service.notifications.formats.teams import FORMAT, render
from tests.builders.receivers.notices import NOTICE, named, receiver

TEAMS = receiver(FORMAT)


def _texts(name: str) -> list[str]:
    card = render(named(name), TEAMS, 100)["attachments"][0]["content"]
    return [run["text"] for block in card["body"] for run in block["inlines"]]


def test_names_stand_where_there_is_no_markdown() -> None:
    name = "[click](https://evil.example) **b** <at>all</at>"
    card = render(named(name), TEAMS, 100)["attachments"][0]["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert f"{name}, attempt 1" in _texts(name)


def test_no_name_is_a_date_or_a_template() -> None:
    joined = " ".join(_texts("{{DATE(2017-02-14T06:08:00Z)}} ${x}"))
    assert "{{" not in joined
    assert "${" not in joined


def test_buttons_lead_to_the_regression_and_its_examples() -> None:
    actions = render(NOTICE, TEAMS, 100)["attachments"][0]["content"]["actions"]
    assert [action["title"] for action in actions] == [
        "Open the regression",
        "run-42, attempt 3",
        "run-57, attempt 1",
    ]
    bare = render(replace(NOTICE, public_url=""), TEAMS, 100)["attachments"][0]["content"]
    assert bare["actions"] == []
