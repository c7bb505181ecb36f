"""A notice is kept as it was; a receiver shows neither its address nor its secrets."""

from dataclasses import replace

import pytest
from hypothesis import given

from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import Receiver, from_json, to_json
from tests.builders.receivers.notices import FINDING, NAMES, NOTICE, RESOLVED, named


def test_what_is_written_is_read_back() -> None:
    for notice in (NOTICE, RESOLVED, replace(NOTICE, is_test=True)):
        assert from_json(to_json(notice)) == notice


@given(name=NAMES.filter(lambda name: name.isprintable()))
def test_names_come_back_as_they_were(name: str) -> None:
    assert from_json(to_json(named(name))) == named(name)


def test_a_change_from_nothing_is_written_as_json_and_read_back() -> None:
    endless = replace(FINDING, ratio=float("inf"), low=2.0, high=float("inf"))
    text = to_json(replace(NOTICE, finding=endless))
    assert "Infinity" not in text
    assert from_json(text).finding == endless


def test_the_same_notice_is_always_the_same_text() -> None:
    assert to_json(from_json(to_json(NOTICE))) == to_json(NOTICE)


@pytest.mark.parametrize("text", ["", "{}", "[]", to_json(NOTICE)[:-1]])
def test_what_is_no_notice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_json(text)


def test_links_lead_to_the_server_that_people_reach() -> None:
    assert NOTICE.link == "https://ett.example/regressions/01JCXK7V4W?project=research"
    assert NOTICE.examples == (
        ("run-42", 3, "https://ett.example/jobs/run-42?project=research"),
        ("run-57", 1, "https://ett.example/jobs/run-57?project=research"),
    )


def test_without_an_address_of_the_server_there_are_no_links() -> None:
    bare = replace(NOTICE, public_url="")
    assert (bare.link, bare.runbook) == ("", "")
    assert [link for *_, link in bare.examples] == ["", ""]


def test_a_link_holds_any_name_and_one_that_grows_too_long_is_left_out() -> None:
    odd, endless = named("a/b?c#d é"), named("界" * 200)
    assert odd.examples[0][2].endswith(
        "/jobs/a%2Fb%3Fc%23d%20%C3%A9?project=a%2Fb%3Fc%23d%20%C3%A9"
    )
    assert endless.examples[0][2] == ""


def test_neither_address_nor_secret_of_a_receiver_is_in_its_repr() -> None:
    receiver = Receiver(1, "a", "https://a.example/T0K3N", FORMATS["generic"], ("CANARY",))
    assert "T0K3N" not in repr(receiver)
    assert "CANARY" not in repr(receiver)
