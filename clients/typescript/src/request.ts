export interface RequestOptions {
  /** Cancels the request and closes its connection. */
  signal?: AbortSignal | undefined;
  timeout?: number | undefined;
  maxRetries?: number | undefined;
  headers?: Record<string, string> | undefined;
  account?: string | undefined;
  /** `Idempotency-Key`, on the routes that take one. */
  idempotencyKey?: string | undefined;
  /** Receives every answer before its body is read: status and headers, such as `X-Request-Id`. */
  onResponse?: ((response: { status: number; headers: Headers; url: string }) => void) | undefined;
}

export interface Call {
  body?: unknown;
  form?: object;
  media?: string;
  query?: object;
  retryable?: boolean;
  /** The answer comes after a turn of an agent session. */
  slow?: boolean;
  handle?: string;
  accept?: string;
  lastEventId?: string | undefined;
}
