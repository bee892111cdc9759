// Generated from openapi.json by clients/generate/generate.py. Do not edit.

import { ProblemError } from "../errors.js";

/** The problem `bad-request`. */
export class BadRequestError extends ProblemError {}
/** The problem `capacity-exhausted`. */
export class CapacityExhaustedError extends ProblemError {}
/** The problem `concurrency-limit`. */
export class ConcurrencyLimitError extends ProblemError {}
/** The problem `conflict`. */
export class ConflictError extends ProblemError {}
/** The problem `driver-error`. */
export class DriverErrorError extends ProblemError {}
/** The problem `driver-not-integrated`. */
export class DriverNotIntegratedError extends ProblemError {}
/** The problem `feature-unavailable`. */
export class FeatureUnavailableError extends ProblemError {}
/** The problem `forbidden`. */
export class ForbiddenError extends ProblemError {}
/** The problem `internal`. */
export class InternalError extends ProblemError {}
/** The problem `method-not-allowed`. */
export class MethodNotAllowedError extends ProblemError {}
/** The problem `mfa-step-up-required`. */
export class MfaStepUpRequiredError extends ProblemError {}
/** The problem `not-found`. */
export class NotFoundError extends ProblemError {}
/** The problem `payload-too-large`. */
export class PayloadTooLargeError extends ProblemError {}
/** The problem `profile-in-use`. */
export class ProfileInUseError extends ProblemError {}
/** The problem `rate-limited`. */
export class RateLimitedError extends ProblemError {}
/** The problem `request-timeout`. */
export class RequestTimeoutError extends ProblemError {}
/** The problem `session-destroyed`. */
export class SessionDestroyedError extends ProblemError {}
/** The problem `session-timeout`. */
export class SessionTimeoutError extends ProblemError {}
/** The problem `unauthorized`. */
export class UnauthorizedError extends ProblemError {}
/** The problem `unsupported-media-type`. */
export class UnsupportedMediaTypeError extends ProblemError {}
/** The problem `validation-failed`. */
export class ValidationFailedError extends ProblemError {}

/** Classes of problems by their code. */
export const PROBLEMS: Record<string, typeof ProblemError> = {
  "bad-request": BadRequestError,
  "capacity-exhausted": CapacityExhaustedError,
  "concurrency-limit": ConcurrencyLimitError,
  "conflict": ConflictError,
  "driver-error": DriverErrorError,
  "driver-not-integrated": DriverNotIntegratedError,
  "feature-unavailable": FeatureUnavailableError,
  "forbidden": ForbiddenError,
  "internal": InternalError,
  "method-not-allowed": MethodNotAllowedError,
  "mfa-step-up-required": MfaStepUpRequiredError,
  "not-found": NotFoundError,
  "payload-too-large": PayloadTooLargeError,
  "profile-in-use": ProfileInUseError,
  "rate-limited": RateLimitedError,
  "request-timeout": RequestTimeoutError,
  "session-destroyed": SessionDestroyedError,
  "session-timeout": SessionTimeoutError,
  "unauthorized": UnauthorizedError,
  "unsupported-media-type": UnsupportedMediaTypeError,
  "validation-failed": ValidationFailedError,
};
