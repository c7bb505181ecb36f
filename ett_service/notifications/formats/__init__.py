"""The formats of webhooks: every module of this package is one, and declares it as ``FORMAT``."""

from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from pkgutil import iter_modules

import msgspec

from ett_service.notifications.notice import Notice, Receiver, WebhookFormat

_TEXT_LENGTHS = (300, 100, 40, 15)


def _declared() -> dict[str, WebhookFormat]:
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    formats: list[WebhookFormat] = [module.FORMAT for module in modules]
    ordered = sorted(formats, key=lambda declared: (declared.place, declared.name))
    return {declared.name: declared for declared in ordered}


FORMATS: Mapping[str, WebhookFormat] = _declared()
"""All formats by name, in the order in which lists show them."""


class Format(StrEnum):
    """The format of a receiver's messages."""

    _ignore_ = ["names", "name"]  # noqa: RUF012 - as enum reads it
    names = vars()
    for name in FORMATS:
        names[name.upper()] = name


def render(notice: Notice, receiver: Receiver) -> bytes:
    """Return the body for *receiver*; names are cut where it would be too long otherwise."""
    body = b""
    for length in _TEXT_LENGTHS:
        body = msgspec.json.encode(receiver.format.render(notice, receiver, length))
        if len(body) <= receiver.format.most_bytes:
            break
    return body
