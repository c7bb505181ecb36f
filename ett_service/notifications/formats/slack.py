"""Slack Block Kit, for an incoming webhook.

``&``, ``<`` and ``>`` are escaped, so no name becomes a link or a mention; ``verbatim`` keeps Slack
from finding some by itself. Limits: 150 characters in a header, 3,000 in a text, 50 blocks
(docs.slack.dev, Block Kit reference).
"""

from typing import Any

from ett_service.notifications.notice import Notice
from ett_service.notifications.routing import Receiver
from ett_service.notifications.wording import fitted, word

_MOST_HEADER = 150
_MOST_TEXT = 3_000
_NO_DIVIDER = "\N{BROKEN BAR}"  # in a link a vertical bar divides address and text
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
#: A word joiner after a mark that formats or calls takes its meaning, and is not seen. Names are
#: full of ``_``, which at worst makes italics: those stay as they can be copied.
_DEFUSED = {mark: f"{mark}\N{WORD JOINER}" for mark in "*~`@"}


def body(notice: Notice, _: Receiver, most: int) -> dict[str, Any]:
    """Write one message."""
    told = word(notice, most)
    facts = (
        ("What", told.what),
        ("How much", told.how_much),
        ("Since", told.since),
        ("Associated with", told.associated),
        ("Costs", told.cost),
    )
    blocks = [_header(told.headline), *(_fact(name, text) for name, text in facts)]
    if told.examples:
        blocks.append(_text(f"*Examples*\n{_links(told.examples)}"))
    more = _links(((told.more, notice.link),))
    remark = f"{told.remark} " if told.remark else ""
    blocks.append({"type": "context", "elements": [_mrkdwn(f"{remark}{more}")]})
    return {"text": fitted(told.headline, _MOST_TEXT, _escape), "blocks": blocks}


def _header(text: str) -> dict[str, Any]:
    plain = {"type": "plain_text", "text": fitted(text, _MOST_HEADER, _escape), "emoji": False}
    return {"type": "header", "text": plain}


def _fact(name: str, text: str) -> dict[str, Any]:
    begin = f"*{name}*\n"
    return _text(begin + fitted(text, _MOST_TEXT - len(begin), _escape))


def _text(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _links(named: tuple[tuple[str, str], ...]) -> str:
    return "\n".join(_link(name, link) for name, link in named)


def _link(name: str, link: str) -> str:
    text = fitted(name.replace("|", _NO_DIVIDER), _MOST_TEXT // 4, _escape)
    address = "".join(map(_escaped_in_address, link))
    return f"<{address}|{text}>" if link and len(address) < _MOST_TEXT // 4 else text


def _escape(character: str) -> str:
    return _ESCAPES.get(character) or _DEFUSED.get(character, character)


def _escaped_in_address(character: str) -> str:
    return "%7C" if character == "|" else _ESCAPES.get(character, character)
