"""Headers by which a receiver knows who speaks, as Standard Webhooks has them.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from standardwebhooks import Webhook

from ett_service.core.interval import SECOND_US


def signed(delivery_id: str, body: bytes, secrets: Iterable[str], now_us: int) -> dict[str, str]:
    """Return the headers of a delivery: its id, when it is sent, and a signature by each secret.

    While a secret is replaced both sign, so that a receiver may change over when it likes. Secrets
    are base64, ``whsec_`` before them or not.

    Raises:
        ValueError: A secret is not base64.
    """
    seconds = now_us // SECOND_US
    at = datetime.fromtimestamp(seconds, tz=UTC)
    text = body.decode()
    signatures = [Webhook(secret).sign(delivery_id, at, text) for secret in secrets]
    headers = {"webhook-id": delivery_id, "webhook-timestamp": str(seconds)}
    return headers | ({"webhook-signature": " ".join(signatures)} if signatures else {})
