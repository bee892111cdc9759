/** Base class of every error of this package. */
export class KitfleetError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The service did not answer: the connection was refused, or ended before the answer was complete. */
export class ConnectionFailedError extends KitfleetError {}

/** The answer was not complete within `timeout`. An operation may have taken place. */
export class DeadlineExceededError extends KitfleetError {}

/** The answer is not one of Kitfleet's, such as the HTML page of a proxy. */
export class UnexpectedResponseError extends KitfleetError {
  readonly status: number;
  readonly requestId: string | null;
  /** Seconds after which the request may be repeated, if the answer says so. */
  readonly retryAfter: number | null;
  /** The beginning of the answer's body. */
  readonly excerpt: string;

  constructor(message: string, response: Response, excerpt = "") {
    super(message);
    this.status = response.status;
    this.requestId = response.headers.get("x-request-id");
    this.retryAfter = retryAfter(response);
    this.excerpt = excerpt;
  }
}

/** The answer is a redirect that is not followed: to another origin, or of a request that is not a GET. */
export class RedirectError extends UnexpectedResponseError {}

/** A script that the page ran has thrown an exception. */
export class ScriptError extends KitfleetError {
  readonly exception: { name: string; message: string; line: number | null };

  constructor(exception: { name: string; message: string; line?: number | null }) {
    super(`${exception.name}: ${exception.message}`);
    this.exception = { ...exception, line: exception.line ?? null };
  }
}

/** A webhook that is not to be trusted. */
export class WebhookVerificationError extends KitfleetError {
  readonly reason: "malformed" | "time" | "signature";

  constructor(reason: WebhookVerificationError["reason"], message: string) {
    super(message);
    this.reason = reason;
  }
}

/** One invalid field of a request. */
export interface FieldError {
  field: string;
  message: string;
}

/** A problem document of the service. There is a subclass for each code, such as `NotFoundError`. */
export class ProblemError extends KitfleetError {
  /** The slug of the problem, such as `not-found`. */
  readonly code: string;
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  /** The invalid fields of `validation-failed`. */
  readonly errors: FieldError[];
  /** ID of the request, which the log of the service has, too. */
  readonly requestId: string | null;
  /** Seconds after which the request may be repeated, if the answer says so. */
  readonly retryAfter: number | null;
  /** The whole document, with members that only some problems have. */
  readonly body: Record<string, unknown>;
  readonly headers: Headers;

  constructor(code: string, body: Record<string, unknown>, response: Response) {
    const text = (name: string) => (typeof body[name] === "string" ? (body[name] as string) : "");
    // A document of a proxy may have a member of the same name.
    const isFieldError = (error: Partial<FieldError> | null) => typeof error?.field === "string" && typeof error.message === "string";
    const errors = Array.isArray(body.errors) ? (body.errors as FieldError[]).filter(isFieldError) : [];
    const detail = text("detail") || text("error_description");
    const fields = errors.map((error) => `${error.field}: ${error.message}`).join("; ");
    const requestId = text("request_id") || response.headers.get("x-request-id");
    super([`${response.status} ${code}`, detail, fields].filter(Boolean).join(": ") + (requestId ? ` (request ${requestId})` : ""));
    this.code = code;
    this.status = response.status;
    this.title = text("title") || code;
    this.detail = detail;
    this.errors = errors;
    this.requestId = requestId;
    this.retryAfter = retryAfter(response);
    this.body = body;
    this.headers = response.headers;
  }
}

/** Seconds of `Retry-After`, or null. */
export function retryAfter(response: Response): number | null {
  const value = response.headers.get("retry-after")?.trim();
  if (!value) return null;
  if (/^\d+$/.test(value)) return Number(value);
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, (at - Date.now()) / 1000);
}
