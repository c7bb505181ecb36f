"""Which addresses are public, and which nobody may be sent to."""

import random
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from ett_service.notifications.guard import Address, Allowed, is_forbidden, is_public

FORBIDDEN = (
    "169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
    "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fd20:ce::254", "224.0.0.1", "ff02::1",
    "::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::1", "::ffff:0:a9fe:a9fe", "2001:0:a9fe:a9fe::1", "2001::5601:5601",
)  # fmt: skip
NOT_PUBLIC = (
    "0.0.0.1", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.9.9.9",
    "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "198.51.100.7", "203.0.113.9", "240.0.0.1", "255.255.255.255", "::", "::1",
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "2001::1",
    "2001:10::1", "2001:db8::1", "2002:0808:0808::1", "3fff::1", "5f00::1", "fc00::1", "fd12::1",
    "fec0::1", "100::1",
)  # fmt: skip
PUBLIC = (
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1",
    "192.167.0.1", "198.17.0.1", "198.20.0.1", "2606:4700::1111", "2001:4860:4860::8888",
)  # fmt: skip


@pytest.mark.parametrize("text", FORBIDDEN)
def test_nobody_may_be_at_addresses_of_links_and_metadata_however_wrapped(text: str) -> None:
    assert is_forbidden(ip_address(text))
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_addresses_of_inside_are_not_public_but_open_to_the_operator(text: str) -> None:
    assert not is_public(ip_address(text))
    assert not is_forbidden(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_addresses_of_the_internet_are_public(text: str) -> None:
    assert is_public(ip_address(text))


def test_whatever_python_knows_to_be_no_global_address_is_not_public() -> None:
    drawn = random.Random(7)
    fours: list[Address] = [IPv4Address(drawn.getrandbits(32)) for _ in range(5_000)]
    sixes: list[Address] = [IPv6Address(drawn.getrandbits(125) | 1 << 125) for _ in range(5_000)]
    sixes += [IPv6Address(0x2001 << 112 | drawn.getrandbits(112)) for _ in range(2_000)]

    wrong = [
        address for address in (*fours, *sixes) if is_public(address) and not address.is_global
    ]

    assert wrong == []


def test_what_is_allowed_is_named_or_lies_in_a_network() -> None:
    allowed = Allowed.of(("10.1.0.0/16", "Alerts.Example", "10.9.9.9", "fd12::/16"))

    assert allowed.names("alerts.example")
    assert allowed.names("10.1.2.3")
    assert allowed.holds(ip_address("10.9.9.9"))
    assert allowed.holds(ip_address("fd12::1"))
    assert not allowed.names("other.example")
    assert not allowed.holds(ip_address("10.2.0.1"))
