"""Every error that the package raises."""

from ._errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    FieldError,
    KitfleetError,
    ProblemError,
    RedirectError,
    ScriptError,
    UnexpectedResponseError,
    WebhookVerificationError,
)
from ._problems import *  # noqa: F403

__all__ = [
    "ConnectionFailedError",
    "DeadlineExceededError",
    "FieldError",
    "KitfleetError",
    "ProblemError",
    "RedirectError",
    "ScriptError",
    "UnexpectedResponseError",
    "WebhookVerificationError",
]
