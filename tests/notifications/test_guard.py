"""What an address of a receiver may look like."""

import pytest

from ett_service.notifications.guard import Allowed, Destination, Guard, Refused, resolve

BY_API = Guard(public_only=True)
OF_SETTINGS = Guard(public_only=False)


@pytest.mark.parametrize(
    ("url", "destination"),
    [
        ("https://hooks.example/a?b=c", Destination("https", "hooks.example", 443, b"/a?b=c")),
        ("HTTPS://Hooks.Example:8443", Destination("https", "hooks.example", 8443, b"/")),
        ("https://bücher.example/", Destination("https", "xn--bcher-kva.example", 443, b"/")),
        ("https://hooks.example/a#b@c", Destination("https", "hooks.example", 443, b"/a")),
    ],
)
def test_an_address_of_the_web_is_taken_apart(url: str, destination: Destination) -> None:
    assert BY_API.destination(url) == destination


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/",
        "https://hooks.example:22/",
        "https://user@hooks.example/",
        "https://user:word@hooks.example/",
        "ftp://hooks.example/",
        "//hooks.example/",
        "https:///path",
        "https://[::1/",
        "https://hooks.example:0/",
        "https://hooks.example:99999/",
        "https://ho\toks.example/",
        "https://127.0.0.1/",
        "https://[::ffff:127.0.0.1]/",
        "https://169.254.169.254/",
        "https://a..example/",
        f"https://{'a' * 64}.example/",
        f"https://{'a.' * 127}example/",
        "",
    ],
)
def test_anything_else_is_refused_to_whom_the_operator_did_not_name(url: str) -> None:
    with pytest.raises(Refused) as refused:
        BY_API.destination(url)

    assert not url or url not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://hooks.example/", "https://hooks.example:22/", "https://127.0.0.1/"]
)
def test_what_the_operator_could_allow_is_refused_with_the_setting_that_does(url: str) -> None:
    with pytest.raises(Refused, match="`webhook_allow` in the settings"):
        BY_API.destination(url)


def test_the_operator_may_name_any_host_and_port_but_those_of_links_and_metadata() -> None:
    assert OF_SETTINGS.destination("http://10.1.2.3:9093/api").port == 9093
    for url in ("http://169.254.169.254/latest", "http://[fd00:ec2::254]/", "http://a@b/"):
        with pytest.raises(Refused):
            OF_SETTINGS.destination(url)


def test_a_host_that_is_allowed_by_name_need_not_be_of_the_web() -> None:
    guard = Guard(public_only=True, allowed=Allowed.of(["am.internal", "10.1.0.0/16"]))

    assert guard.destination("http://am.internal:9093/").port == 9093
    assert guard.destination("http://10.1.2.3/").port == 80
    assert guard.addresses("am.internal", ["10.9.9.9"])
    with pytest.raises(Refused):
        guard.destination("http://other.internal:9093/")
    with pytest.raises(Refused):
        guard.addresses("am.internal", ["169.254.169.254"])


def test_a_host_in_a_network_that_is_allowed_is_reached_as_one_of_the_web() -> None:
    guard = Guard(public_only=True, allowed=Allowed.of(["10.1.0.0/16"]))

    assert guard.addresses("hooks.internal", ["10.1.2.3"])
    with pytest.raises(Refused):
        guard.addresses("hooks.internal", ["10.1.2.3", "10.2.2.3"])


def test_one_answer_that_is_not_public_is_enough_to_refuse_all() -> None:
    assert len(BY_API.addresses("hooks.example", ["1.1.1.1", "2606:4700::1111"])) == 2
    for answers in (["1.1.1.1", "10.0.0.1"], ["fe80::1", "1.1.1.1"], []):
        with pytest.raises(Refused):
            BY_API.addresses("hooks.example", answers)


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "localhost"])
def test_what_the_system_takes_for_this_machine_is_refused_when_it_is_resolved(host: str) -> None:
    with pytest.raises(Refused):
        BY_API.addresses(host, resolve(host, 443))
