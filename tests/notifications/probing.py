"""A program that sends to addresses it is given and prints where it connected to.

Python itself reports every connection that is tried, as strace would.
"""

import json
import socket
import sys

from ett_service.notifications.formats import FORMATS
from ett_service.notifications.guard import Allowed
from ett_service.notifications.notice import OF_SETTINGS, Receiver
from ett_service.notifications.sender import Sender, Sending
from tests.builders.clock import NOON
from tests.builders.receivers.deliveries import notice
from tests.notifications.hostile_urls import ANSWERS


def _resolve(host: str, port: int) -> list[str]:
    if host in ANSWERS:
        return ANSWERS[host]
    numeric = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return [str(sockaddr[0]) for *_, sockaddr in numeric]


def main() -> None:
    """Send to the addresses of stdin: those of receivers made by API, and those of settings."""
    order = json.load(sys.stdin)
    connected: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "socket.connect":
            connected.append(str(arguments[1]))

    sys.addaudithook(hook)
    sender = Sender(Sending(1, 1, allowed=Allowed.of(order["allowed"])), resolve=_resolve)
    receivers = [Receiver(1, "a", url, FORMATS["generic"]) for url in order["by_api"]]
    receivers += [
        Receiver(OF_SETTINGS, "a", url, FORMATS["generic"]) for url in order["of_settings"]
    ]
    outcomes = [sender.send(receiver, "msg_1", notice(), NOON) for receiver in receivers]
    result = {"connected": connected, "said": [outcome.said for outcome in outcomes]}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
