"""The formats of webhooks: every module of this package is one, and declares it as ``FORMAT``."""

from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from pkgutil import iter_modules

from ett_service.notifications.notice import WebhookFormat


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
