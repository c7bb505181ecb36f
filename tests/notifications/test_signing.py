"""Signatures that the reference library takes, and nothing else that it does."""

import random
import time
from collections.abc import Mapping

import pytest
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from ett_service.core.intervals import SECOND_US
from ett_service.notifications.sender import signed
from ett_service.storage.receivers.receivers import new_secret

OLD, NEW, OTHER = new_secret(), new_secret(), new_secret()
MINUTES_6 = 360


def now_us(offset_seconds: int = 0) -> int:
    return (int(time.time()) + offset_seconds) * SECOND_US


def accepts(secret: str, body: bytes, headers: Mapping[str, str]) -> bool:
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except WebhookVerificationError:
        return False
    return True


def test_the_reference_library_takes_what_we_sign_and_nothing_that_was_changed() -> None:
    drawn = random.Random(8)
    taken = forged = 0
    for number in range(1_000):
        body = f'{{"text": "{"é" * drawn.randrange(50)}{drawn.random()}"}}'.encode()
        headers = signed(f"msg_{number}", body, [NEW], now_us())
        taken += accepts(NEW, body, headers)
        at = drawn.randrange(len(body))
        changed = body[:at] + (b"x" if body[at : at + 1] != b"x" else b"y") + body[at + 1 :]
        forged += accepts(NEW, changed.decode("utf-8", "replace").encode(), headers)
        forged += accepts(NEW, body, headers | {"webhook-id": f"msg_{number + 1}"})
        later = str(int(headers["webhook-timestamp"]) + 1)
        forged += accepts(NEW, body, headers | {"webhook-timestamp": later})
        forged += accepts(OTHER, body, headers)
        forged += accepts(NEW, body, signed(f"msg_{number}", body, [NEW], now_us(-MINUTES_6)))
        forged += accepts(NEW, body, signed(f"msg_{number}", body, [NEW], now_us(MINUTES_6)))

    assert (taken, forged) == (1_000, 0)


def test_while_a_secret_is_replaced_both_are_taken() -> None:
    headers = signed("msg_1", b"{}", [NEW, OLD], now_us())

    assert accepts(NEW, b"{}", headers)
    assert accepts(OLD, b"{}", headers)
    assert not accepts(OTHER, b"{}", headers)


def test_without_a_secret_there_is_an_id_and_no_signature() -> None:
    headers = signed("msg_1", b"{}", [], 5 * SECOND_US)

    assert headers == {"webhook-id": "msg_1", "webhook-timestamp": "5"}


def test_a_secret_that_is_none_is_reported() -> None:
    with pytest.raises(ValueError, match=r"base64|padding|multiple"):
        signed("msg_1", b"{}", ["whsec_a"], now_us())
