"""Microsoft Teams: an Adaptive Card 1.4 in the envelope that a workflow reads.

Names stand in text runs, which know no Markdown, so there is nothing to escape but the beginning
of a template or date function. A message may have 28 KB, a card six actions (learn.microsoft.com,
"Create incoming webhooks with Workflows").
"""

from typing import Any

from ett_service.notifications.notice import Notice, Receiver, WebhookFormat
from ett_service.notifications.wording import cut, word

_MOST_BYTES = 14_000  #: of 28 KB: Teams counts two bytes a character where it expects no UTF-8
_MOST_TEXT = 3_000
_MOST_TITLE = 100


def render(notice: Notice, _: Receiver, most: int) -> dict[str, Any]:
    """Return one message."""
    wording = word(notice, most)
    facts = [
        *wording.facts,
        *(("Example", name) for name, _ in wording.examples),
        ("More", wording.more),
        *((("Test", wording.remark),) if wording.remark else ()),
    ]
    links = [("Open the regression", notice.link), *wording.examples]
    headline = _plain(wording.headline)
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": headline,
        "body": [
            _block({"text": headline, "weight": "Bolder", "size": "Medium"}),
            *(
                _block({"text": f"{name}: ", "weight": "Bolder"}, {"text": _plain(text)})
                for name, text in facts
            ),
        ],
        "actions": [
            {"type": "Action.OpenUrl", "title": cut(_plain(name), _MOST_TITLE), "url": link}
            for name, link in links
            if link
        ],
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


FORMAT = WebhookFormat(name="teams", render=render, place=3, most_bytes=_MOST_BYTES)


def _block(*runs: dict[str, Any]) -> dict[str, Any]:
    inlines = [{"type": "TextRun", **run} for run in runs]
    return {"type": "RichTextBlock", "inlines": inlines}


def _plain(text: str) -> str:
    return cut(text.replace("{", "\N{WORD JOINER}{\N{WORD JOINER}"), _MOST_TEXT)
