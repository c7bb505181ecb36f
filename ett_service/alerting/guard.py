"""Where requests of a receiver may go, so that nobody has the server fetch what is not for them.

An address is resolved once, checked and connected to: checking a name and connecting to it later
would leave its owner to answer differently the second time.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypeAlias

import httpx2

from ett_service.alerting.addresses import NONE_ALLOWED, Address, Allowed, is_forbidden, is_public
from ett_service.core.errors import EttError

PORTS = frozenset({443, 8443})
"""Where receivers listen that are made by API."""

Resolve: TypeAlias = Callable[[str, int], list[str]]
"""From a host and a port to addresses; raises ``OSError``."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Refused(EttError):
    """Nothing is sent to this address."""

    hint = "See docs/howto/webhooks-receive.md for where a receiver may be."


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a request goes."""

    scheme: str
    host: str  #: as it is written in DNS, or an address
    port: int
    target: bytes  #: path and query


@dataclass(frozen=True, slots=True)
class Guard:
    """Says where requests may go."""

    public_only: bool
    """Whether somebody else than the operator named the receiver."""
    allowed: Allowed = NONE_ALLOWED
    ports: frozenset[int] = PORTS

    def destination(self, url: str) -> Destination:
        """Take *url* apart.

        Raises:
            Refused: It is no address of a receiver. What says so does not repeat it.
        """
        try:
            parsed = httpx2.URL(url)
        except httpx2.InvalidURL:
            raise Refused("The address is not a URL.") from None
        if parsed.scheme not in _DEFAULT_PORTS or not parsed.raw_host:
            raise Refused("The address is not one of http or https.")
        if parsed.userinfo:
            raise Refused("The address has a user name in it.")
        host = parsed.raw_host.decode("ascii")
        port = _DEFAULT_PORTS[parsed.scheme] if parsed.port is None else parsed.port
        if not 0 < port < 1 << 16:
            raise Refused("The address has no port that there is.")
        if self.public_only and not self.allowed.names(host):
            self._require_web(parsed.scheme, port)
        self._require_literal(host)
        return Destination(parsed.scheme, host, port, parsed.raw_path)

    def addresses(self, host: str, answers: list[str]) -> list[Address]:
        """Return what *host* resolved to.

        Raises:
            Refused: One of the answers is an address that nothing may be sent to.
        """
        found = [ip_address(answer) for answer in answers]
        if not found:
            raise Refused("The host has no address.")
        for address in found:
            self._require(host, address)
        return found

    def _require_web(self, scheme: str, port: int) -> None:
        if scheme != "https":
            raise Refused("The address is not one of https.")
        if port not in self.ports:
            raise Refused(f"The port is none of {', '.join(map(str, sorted(self.ports)))}.")

    def _require_literal(self, host: str) -> None:
        """Say at once of an address what is said of others when they are resolved."""
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
            raise Refused("The host is at an address that is not public.")


def resolve(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of *host*, in the order in which it would try them."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in answers))
