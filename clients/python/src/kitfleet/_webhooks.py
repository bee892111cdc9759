"""Verification of webhooks."""

import hashlib
import hmac
import json
import re
import time
from typing import Optional, Union, cast

from . import models
from ._errors import WebhookVerificationError


def verify_webhook(
    body: Union[bytes, bytearray, memoryview, str],
    signature: Optional[str],
    secret: str,
    *,
    tolerance: float = 300,
    now: Optional[float] = None,
) -> "models.WebhookEvent":
    """Returns the event of a delivery, or raises `WebhookVerificationError`.

    `signature` is the header `X-Service-Signature`. `body` must be the bytes as they arrived: JSON that was parsed and written
    again has other bytes. `tolerance` is the number of seconds by which the time of the delivery may differ from the clock.
    `now` is in seconds since 1970, and is for tests.
    """
    if not secret:
        # Anyone can sign with an empty secret.
        raise ValueError("The signing secret is empty")
    raw = body.encode() if isinstance(body, str) else bytes(body)
    parts = [part.strip().partition("=") for part in (signature or "").split(",")]
    times = [value for name, _, value in parts if name == "t"]
    signatures = [value for name, _, value in parts if name == "v1"]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]) or not signatures:
        raise WebhookVerificationError("malformed", "The signature header needs one t= and at least one v1=")
    # Not `>`, so that a time or a tolerance that is not a number refuses.
    if not abs((time.time() if now is None else now) - int(times[0])) <= tolerance:
        raise WebhookVerificationError("time", "The delivery is too old, or one of the clocks is wrong")
    expected = hmac.new(secret.encode(), f"{times[0]}.".encode() + raw, hashlib.sha256).hexdigest().encode()
    # There are two signatures while a secret is rotated.
    if not any([hmac.compare_digest(expected, given.encode(errors="replace")) for given in signatures]):
        raise WebhookVerificationError("signature", "No signature is by this secret, of this body")
    return cast("models.WebhookEvent", models.REGISTRY.wrap("WebhookEvent", json.loads(raw)))
