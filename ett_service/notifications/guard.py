"""The guard: to which addresses requests to a receiver may go."""

import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Self, TypeAlias

import httpx2

from ett_service.core.errors import EttError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


def _networks(*words: str) -> tuple[Network, ...]:
    return tuple(ip_network(word) for word in words)


#: Such services give credentials to anybody on the machine, or belong to the link.
_FORBIDDEN = _networks(
    "169.254.0.0/16",  # link-local, and the metadata of most clouds
    "100.100.100.200/32",  # metadata of Alibaba Cloud
    "168.63.129.16/32",  # the wire server of Azure
    "192.0.0.192/32",  # metadata of Oracle Cloud
    "fe80::/10",
    "fd00:ec2::/32",  # metadata of Amazon
    "fd20:ce::/32",  # metadata of Google
    "fd00:c1::/32",  # metadata of Oracle Cloud
    "224.0.0.0/4",
    "ff00::/8",
)
#: By RFC 6890 and the registries that it began; of IPv6 nothing outside of 2000::/3 is public.
_NOT_PUBLIC = _networks(
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "240.0.0.0/4",
    "2001::/23",  # Teredo and other protocols
    "2001:db8::/32",
    "2002::/16",  # 6to4
    "3fff::/20",
)
_PUBLIC_V6 = ip_network("2000::/3")

#: An IPv4 address stands in the last four bytes of these.
_CARRYING_V4 = _networks(
    "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"
)


def is_forbidden(address: Address) -> bool:
    """Whether no request may go there: link-local, metadata, multicast, however wrapped."""
    return any(_is_in(reached, _FORBIDDEN) for reached in _reached_by(address))


def is_public(address: Address) -> bool:
    """Whether *address* is reachable on the internet."""
    if is_forbidden(address) or _is_in(address, _NOT_PUBLIC):
        return False
    return isinstance(address, IPv4Address) or address in _PUBLIC_V6


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hosts and networks that are allowed although they are not public."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, words: Iterable[str]) -> Self:
        """Read networks and addresses; any other word is a host."""
        hosts, networks = set(), []
        for word in words:
            try:
                networks.append(ip_network(word.strip()))
            except ValueError:
                hosts.add(word.strip().casefold())
        return cls(frozenset(hosts), tuple(networks))

    def names(self, host: str) -> bool:
        """Whether *host* itself is allowed: by its name, or as an address in a network."""
        if host.casefold() in self.hosts:
            return True
        try:
            return _is_in(ip_address(host), self.networks)
        except ValueError:
            return False

    def holds(self, address: Address) -> bool:
        """Whether *address* is in one of the networks."""
        return _is_in(address, self.networks)


NONE_ALLOWED = Allowed()


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _reached_by(address: Address) -> Iterator[Address]:
    """Yield *address*, and the IPv4 addresses to which gateways would forward."""
    yield address
    if not isinstance(address, IPv6Address):
        return
    if _is_in(address, _CARRYING_V4):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo


_NOR_ALLOWED = "and `webhook_allow` in the settings does not allow it"

PORTS = frozenset({443, 8443})
"""Ports of receivers that are made by API."""

Resolve: TypeAlias = Callable[[str, int], list[str]]
"""From a host and a port to addresses; raises ``OSError``."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Refused(EttError):
    """No request may go to this address."""

    hint = "See docs/howto/webhooks-receive.md for where a receiver may be."


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a request goes."""

    scheme: str
    host: str  #: as it is written in DNS, or an address
    port: int
    target: bytes  #: path and query

    @property
    def authority(self) -> str:
        """Host and port as the ``Host`` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Guard:
    """The rules for one receiver's requests."""

    public_only: bool
    """Whether the receiver was made by API, and not by the operator."""
    allowed: Allowed = NONE_ALLOWED
    ports: frozenset[int] = PORTS

    def destination(self, url: str) -> Destination:
        """Parse *url*.

        Raises:
            Refused: It is no allowed address. The message does not repeat it, as it is a secret.
        """
        try:
            parsed = httpx2.URL(url)
        except httpx2.InvalidURL:
            raise Refused("The address is not a URL.") from None
        if parsed.scheme not in _DEFAULT_PORTS or not parsed.raw_host:
            raise Refused("The address is neither http nor https.")
        if parsed.userinfo:
            raise Refused("The address contains a user name.")
        host = _host(parsed)
        port = _DEFAULT_PORTS[parsed.scheme] if parsed.port is None else parsed.port
        if not 0 < port < 1 << 16:
            raise Refused("The port of the address does not exist.")
        if self.public_only and not self.allowed.names(host):
            if parsed.scheme != "https":
                raise Refused(f"The address is not https, {_NOR_ALLOWED}.")
            if port not in self.ports:
                ports = ", ".join(map(str, sorted(self.ports)))
                raise Refused(f"The port is not one of {ports}, {_NOR_ALLOWED}.")
        self._require_literal(host)
        return Destination(parsed.scheme, host, port, parsed.raw_path)

    def addresses(self, host: str, answers: list[str]) -> list[Address]:
        """Return the addresses to which *host* resolved.

        Raises:
            Refused: There is none, or requests may not go to one of them.
        """
        addresses = [ip_address(answer) for answer in answers]
        if not addresses:
            raise Refused("The host has no address.")
        for address in addresses:
            self._require(host, address)
        return addresses

    def _require_literal(self, host: str) -> None:
        """Check at once a host that is an address; other hosts are checked once resolved."""
        try:
            address = ip_address(host)
        except ValueError:
            return
        self._require(host, address)

    def _require(self, host: str, address: Address) -> None:
        if is_forbidden(address):
            raise Refused("The host is at a link-local, metadata or multicast address.")
        is_allowed = self.allowed.holds(address) or self.allowed.names(host)
        if self.public_only and not is_allowed and not is_public(address):
            raise Refused(f"The host is at an address that is not public, {_NOR_ALLOWED}.")


def _host(url: httpx2.URL) -> str:
    host = url.raw_host.decode("ascii")
    if ":" not in host and not _is_name(host):
        raise Refused("The host is not a name.")
    return host


def _is_name(host: str) -> bool:
    """Whether DNS could hold *host*: its parts have 1 to 63 characters, and all of it 253."""
    parts = host.removesuffix(".").split(".")
    return len(host) <= 253 and all(0 < len(part) < 64 for part in parts)  # noqa: PLR2004 -- RFC 1035


def resolve(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of *host*, in the order in which it would try them."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in answers))
