"""An Adaptive Card 1.4 in the envelope that a workflow of Microsoft Teams reads.

Names stand in text runs, which know no Markdown, so there is nothing to escape but the beginning
of a template or date function. A message may have 28 KB, a card six actions (learn.microsoft.com,
"Create incoming webhooks with Workflows").
"""

from typing import Any

from ett_service.notifications.notice import Notice
from ett_service.notifications.routing import Receiver
from ett_service.notifications.wording import Wording, cut, word

_MOST_TEXT = 3_000
_MOST_TITLE = 100


def body(notice: Notice, _: Receiver, most: int) -> dict[str, Any]:
    """Write one message."""
    told = word(notice, most)
    content = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": _plain(told.headline),
        "body": _elements(told),
        "actions": _actions(notice, told),
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": content,
    }
    return {"type": "message", "attachments": [attachment]}


def _elements(told: Wording) -> list[dict[str, Any]]:
    facts = (
        ("What", told.what),
        ("How much", told.how_much),
        ("Since", told.since),
        ("Associated with", told.associated),
        ("Costs", told.cost),
        *(("Example", name) for name, _ in told.examples),
        ("More", told.more),
        *((("Test", told.remark),) if told.remark else ()),
    )
    title = _runs({"text": _plain(told.headline), "weight": "Bolder", "size": "Medium"})
    return [title, *(_fact(name, text) for name, text in facts)]


def _fact(name: str, text: str) -> dict[str, Any]:
    return _runs({"text": f"{name}: ", "weight": "Bolder"}, {"text": _plain(text)})


def _runs(*runs: dict[str, Any]) -> dict[str, Any]:
    inlines = [{"type": "TextRun", **run} for run in runs]
    return {"type": "RichTextBlock", "inlines": inlines}


def _actions(notice: Notice, told: Wording) -> list[dict[str, str]]:
    named = [("Open the regression", notice.link), *told.examples]
    return [
        {"type": "Action.OpenUrl", "title": cut(_plain(name), _MOST_TITLE), "url": link}
        for name, link in named
        if link
    ]


def _plain(text: str) -> str:
    return cut(text.replace("{", "\N{WORD JOINER}{\N{WORD JOINER}"), _MOST_TEXT)
