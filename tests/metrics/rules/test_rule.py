import pytest

from ett_service.metrics.rules.rule import Alert, BadScale, Group, Links, Recording, Scale


@pytest.mark.parametrize(
    ("duration", "by", "text", "seconds"),
    [
        ("6h", 1, "6h", "21600"),
        ("6h", 60, "6m", "360"),
        ("30d", 60, "12h", "43200"),
        ("5m", 60, "5s", "5"),
        ("90s", 60, "1s500ms", "1.5"),
    ],
)
def test_a_duration_is_divided_by_the_scale(
    duration: str, by: int, text: str, seconds: str
) -> None:
    assert Scale(by).text(duration) == text
    assert Scale(by).seconds(duration) == seconds


@pytest.mark.parametrize("by", [7, 0, -60])
def test_a_scale_that_leaves_a_rest_is_refused(by: int) -> None:
    with pytest.raises(BadScale, match=f"5m cannot be divided by {by}"):
        Scale(by).text("5m")


def test_a_group_is_what_a_rule_file_has() -> None:
    alert = Alert(
        "EttOften",
        "up == 0",
        severity="page",
        summary="Down",
        description="It is down.",
        dashboard="/d/ett-service",
        wait="5m",
        hold="30m",
    )
    group = Group("ett.some", [Recording("a:b:sum", "sum(b)"), alert], interval="2m")
    links = Links("https://docs.test/runbooks/", "https://grafana.test/")
    assert group.plain(Scale(60), links) == {
        "name": "ett.some",
        "interval": "2s",
        "rules": [
            {"record": "a:b:sum", "expr": "sum(b)"},
            {
                "alert": "EttOften",
                "expr": "up == 0",
                "for": "5s",
                "keep_firing_for": "30s",
                "labels": {"severity": "page"},
                "annotations": {
                    "summary": "Down",
                    "description": "It is down.",
                    "runbook_url": "https://docs.test/runbooks/ettoften.md",
                    "dashboard_url": "https://grafana.test/d/ett-service",
                },
            },
        ],
    }


def test_an_alert_that_waits_for_nothing_says_nothing_of_waiting() -> None:
    plain = Alert("EttOnce", "vector(1)", "none", "s", "d", "/d").plain(Scale(), Links())
    assert plain.keys() == {"alert", "expr", "labels", "annotations"}
