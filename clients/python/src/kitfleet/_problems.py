"""Generated from openapi.json by clients/generate/generate.py. Do not edit."""

from typing import Dict, Type

from ._errors import ProblemError


class BadRequestError(ProblemError):
    """The problem `bad-request`."""


class CapacityExhaustedError(ProblemError):
    """The problem `capacity-exhausted`."""


class ConcurrencyLimitError(ProblemError):
    """The problem `concurrency-limit`."""


class ConflictError(ProblemError):
    """The problem `conflict`."""


class DriverErrorError(ProblemError):
    """The problem `driver-error`."""


class DriverNotIntegratedError(ProblemError):
    """The problem `driver-not-integrated`."""


class FeatureUnavailableError(ProblemError):
    """The problem `feature-unavailable`."""


class ForbiddenError(ProblemError):
    """The problem `forbidden`."""


class InternalError(ProblemError):
    """The problem `internal`."""


class MethodNotAllowedError(ProblemError):
    """The problem `method-not-allowed`."""


class MfaStepUpRequiredError(ProblemError):
    """The problem `mfa-step-up-required`."""


class NotFoundError(ProblemError):
    """The problem `not-found`."""


class PayloadTooLargeError(ProblemError):
    """The problem `payload-too-large`."""


class ProfileInUseError(ProblemError):
    """The problem `profile-in-use`."""


class RateLimitedError(ProblemError):
    """The problem `rate-limited`."""


class RequestTimeoutError(ProblemError):
    """The problem `request-timeout`."""


class SessionDestroyedError(ProblemError):
    """The problem `session-destroyed`."""


class SessionTimeoutError(ProblemError):
    """The problem `session-timeout`."""


class UnauthorizedError(ProblemError):
    """The problem `unauthorized`."""


class UnsupportedMediaTypeError(ProblemError):
    """The problem `unsupported-media-type`."""


class ValidationFailedError(ProblemError):
    """The problem `validation-failed`."""


PROBLEMS: Dict[str, Type[ProblemError]] = {
    'bad-request': BadRequestError,
    'capacity-exhausted': CapacityExhaustedError,
    'concurrency-limit': ConcurrencyLimitError,
    'conflict': ConflictError,
    'driver-error': DriverErrorError,
    'driver-not-integrated': DriverNotIntegratedError,
    'feature-unavailable': FeatureUnavailableError,
    'forbidden': ForbiddenError,
    'internal': InternalError,
    'method-not-allowed': MethodNotAllowedError,
    'mfa-step-up-required': MfaStepUpRequiredError,
    'not-found': NotFoundError,
    'payload-too-large': PayloadTooLargeError,
    'profile-in-use': ProfileInUseError,
    'rate-limited': RateLimitedError,
    'request-timeout': RequestTimeoutError,
    'session-destroyed': SessionDestroyedError,
    'session-timeout': SessionTimeoutError,
    'unauthorized': UnauthorizedError,
    'unsupported-media-type': UnsupportedMediaTypeError,
    'validation-failed': ValidationFailedError,
}
"""Classes of problems by their code."""

__all__ = [
    "PROBLEMS",
    "BadRequestError",
    "CapacityExhaustedError",
    "ConcurrencyLimitError",
    "ConflictError",
    "DriverErrorError",
    "DriverNotIntegratedError",
    "FeatureUnavailableError",
    "ForbiddenError",
    "InternalError",
    "MethodNotAllowedError",
    "MfaStepUpRequiredError",
    "NotFoundError",
    "PayloadTooLargeError",
    "ProfileInUseError",
    "RateLimitedError",
    "RequestTimeoutError",
    "SessionDestroyedError",
    "SessionTimeoutError",
    "UnauthorizedError",
    "UnsupportedMediaTypeError",
    "ValidationFailedError",
]
