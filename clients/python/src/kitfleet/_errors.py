"""Errors. The classes of problems are in `_problems`."""

import time
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, cast


class KitfleetError(Exception):
    """Base class of every error of this package."""


class ConnectionFailedError(KitfleetError):
    """The service did not answer: the connection was refused, or ended before the answer was complete."""


class DeadlineExceededError(KitfleetError):
    """The answer was not complete within `timeout`. An operation may have taken place."""


class UnexpectedResponseError(KitfleetError):
    """The answer is not one of Kitfleet's, such as the HTML page of a proxy."""

    def __init__(self, message: str, status: int, headers: Mapping[str, str], excerpt: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.request_id = headers.get("x-request-id")
        self.retry_after = retry_after(headers)
        self.excerpt = excerpt
        """The beginning of the answer's body."""

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (str(self), self.status, dict(self.headers), self.excerpt)


class RedirectError(UnexpectedResponseError):
    """The answer is a redirect that is not followed: to another origin, or of a request that is not a GET."""


class ScriptError(KitfleetError):
    """A script that the page ran has thrown an exception."""

    def __init__(self, name: str, message: str, line: Optional[int]) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message
        self.line = line

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.name, self.message, self.line)


class WebhookVerificationError(KitfleetError):
    """A webhook that is not to be trusted. `reason` is `malformed`, `time` or `signature`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.reason, str(self))


class FieldError:
    """One invalid field of a request."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        self.message = message

    def __repr__(self) -> str:
        return f"FieldError(field={self.field!r}, message={self.message!r})"


class ProblemError(KitfleetError):
    """A problem document of the service. There is a subclass for each code, such as `NotFoundError`."""

    def __init__(self, code: str, body: Dict[str, Any], status: int, headers: Mapping[str, str]) -> None:
        def text(name: str) -> str:
            value = body.get(name)
            return value if isinstance(value, str) else ""

        errors: List[Any] = body["errors"] if isinstance(body.get("errors"), list) else []
        self.code = code
        """The slug of the problem, such as `not-found`."""
        self.status = status
        self.title = text("title") or code
        self.detail = text("detail") or text("error_description")
        # A document of a proxy may have a member of the same name.
        entries = [cast(Dict[str, Any], entry) for entry in errors if isinstance(entry, dict)]
        self.errors: List[FieldError] = [
            FieldError(str(entry["field"]), str(entry["message"])) for entry in entries if "field" in entry and "message" in entry
        ]
        """The invalid fields of `validation-failed`."""
        self.request_id: Optional[str] = text("request_id") or headers.get("x-request-id")
        """ID of the request, which the log of the service has, too."""
        self.retry_after: Optional[float] = retry_after(headers)
        """Seconds after which the request may be repeated, if the answer says so."""
        self.body = body
        """The whole document, with members that only some problems have."""
        self.headers = headers
        fields = "; ".join(f"{error.field}: {error.message}" for error in self.errors)
        request = f" (request {self.request_id})" if self.request_id else ""
        super().__init__(": ".join(filter(None, [f"{status} {code}", self.detail, fields])) + request)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.code, self.body, self.status, dict(self.headers))


def public(*kinds: Type[KitfleetError]) -> None:
    """Has error messages and pickles name the classes as programs import them."""
    for kind in kinds:
        kind.__module__ = "kitfleet.errors"


public(
    KitfleetError, ConnectionFailedError, DeadlineExceededError, UnexpectedResponseError, RedirectError, ScriptError, WebhookVerificationError, ProblemError
)


def retry_after(headers: Mapping[str, str]) -> Optional[float]:
    """Seconds of `Retry-After`, or None."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    if not value:
        return None
    import email.utils

    parsed = email.utils.parsedate_tz(value)
    return None if parsed is None else max(0.0, email.utils.mktime_tz(parsed) - time.time())
