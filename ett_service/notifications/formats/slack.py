"""Slack: Block Kit, for an incoming webhook.

``&``, ``<`` and ``>`` are escaped, so no name becomes a link or a mention; ``verbatim`` keeps Slack
from finding some by itself. Limits: 150 characters in a header, 3,000 in a text, 50 blocks
(docs.slack.dev, Block Kit reference).
"""

from typing import Any

from ett_service.notifications.notice import Notice, Receiver, WebhookFormat
from ett_service.notifications.wording import fitted, word

_MOST_HEADER = 150
_MOST_TEXT = 3_000
_MOST_LINK = _MOST_TEXT // 4
_NO_DIVIDER = "\N{BROKEN BAR}"  # in a link a vertical bar divides address and text
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
#: A word joiner, which is not seen, takes a mark that formats or calls its meaning. Names are full
#: of ``_``, which at worst makes italics: those stay as they are, so that names can be copied.
_DEFUSED = {mark: f"{mark}\N{WORD JOINER}" for mark in "*~`@"}


def render(notice: Notice, _: Receiver, most: int) -> dict[str, Any]:
    """Return one message."""
    wording = word(notice, most)
    header = {
        "type": "plain_text",
        "text": fitted(wording.headline, _MOST_HEADER, _escape),
        "emoji": False,
    }
    sections = []
    for name, text in wording.facts:
        heading = f"*{name}*\n"
        sections.append(heading + fitted(text, _MOST_TEXT - len(heading), _escape))
    if wording.examples:
        links = "\n".join(_link(name, link) for name, link in wording.examples)
        sections.append(f"*Examples*\n{links}")
    remark = f"{wording.remark} " if wording.remark else ""
    context = _mrkdwn(f"{remark}{_link(wording.more, notice.link)}")
    blocks = [
        {"type": "header", "text": header},
        *({"type": "section", "text": _mrkdwn(text)} for text in sections),
        {"type": "context", "elements": [context]},
    ]
    return {"text": fitted(wording.headline, _MOST_TEXT, _escape), "blocks": blocks}


FORMAT = WebhookFormat(name="slack", render=render, place=1)


def _mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _link(name: str, link: str) -> str:
    text = fitted(name.replace("|", _NO_DIVIDER), _MOST_LINK, _escape)
    address = "".join(
        "%7C" if character == "|" else _ESCAPES.get(character, character) for character in link
    )
    return f"<{address}|{text}>" if link and len(address) < _MOST_LINK else text


def _escape(character: str) -> str:
    return _ESCAPES.get(character) or _DEFUSED.get(character, character)
