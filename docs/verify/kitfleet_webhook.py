"""Verifies that a webhook comes from Kitfleet. Standard library only; Python 3.9 and later."""

import hashlib
import hmac
import re
import time
from typing import Optional, Union

TOLERANCE = 300
"""Seconds by which the time of a delivery may differ from ours."""


class NotVerified(Exception):
    """The delivery is not to be believed. `reason` is `malformed`, `time` or `signature`."""

    def __init__(self, reason: str, told: str) -> None:
        super().__init__(told)
        self.reason = reason


def verify(
    secret: str,
    header: Optional[str],
    body: Union[bytes, bytearray, memoryview],
    *,
    tolerance: int = TOLERANCE,
    now: Optional[float] = None,
) -> None:
    """Raises `NotVerified` unless `header`, the value of `X-Service-Signature`, signs `body` with `secret`.

    `body` is the request's body as it came, before anything has parsed it: JSON that was parsed and written again is
    other bytes. `now` is in seconds since 1970, and is there for tests.
    """
    if not secret:
        # Anybody can sign with a secret that is empty.
        raise ValueError("the signing secret is empty")
    parts = [part.partition("=") for part in (header or "").split(",")]
    times = [value for name, _, value in parts if name == "t"]
    signatures = [value for name, _, value in parts if name == "v1"]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]) or not signatures:
        raise NotVerified("malformed", "the signature header needs one t= and at least one v1=")
    if abs((time.time() if now is None else now) - int(times[0])) > tolerance:
        raise NotVerified("time", "the delivery is too old, or one of the clocks is wrong")
    mac = hmac.new(secret.encode(), f"{times[0]}.".encode(), hashlib.sha256)
    mac.update(body)
    expected = mac.hexdigest().encode()
    # There are two while a secret is being rotated.
    if not any(hmac.compare_digest(expected, signature.encode(errors="replace")) for signature in signatures):
        raise NotVerified("signature", "no signature is by this secret, of this body")
