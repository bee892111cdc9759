import { Content, type UploadBody, uploadBody } from "./content.js";
import { ConnectionFailedError, DeadlineExceededError, ProblemError, RedirectError, UnexpectedResponseError } from "./errors.js";
import { PROBLEMS } from "./generated/problems.js";
import { VERSION } from "./generated/version.js";
import { Pager } from "./pager.js";
import type { Call, RequestOptions } from "./request.js";
import { environment, isNode } from "./runtime.js";
import { EventStream } from "./stream.js";
import { backoff, sleep } from "./timing.js";

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface ClientOptions {
  /** Address of the service; `KITFLEET_URL`, or `http://127.0.0.1:8080`, by default. */
  url?: string | undefined;
  /** API key, token of a web session or OAuth token; `KITFLEET_API_KEY` by default. */
  apiKey?: string | undefined;
  /** Account to act on (`X-Service-Account`); the account of the key by default. */
  account?: string | undefined;
  /** Milliseconds until an answer is complete. By default 90 s for requests that may be repeated, 150 s for others, and the `timeout_ms` of an operation in addition; 600 s for messages. */
  timeout?: number | undefined;
  /** How often a request that may be repeated is repeated; 2 by default. */
  maxRetries?: number | undefined;
  /** Headers of every request. */
  headers?: Record<string, string> | undefined;
  /** Replaces the `fetch` of the runtime, such as for a proxy of your own. */
  fetch?: Fetch | undefined;
}

/** A class of the ergonomic layer that a result becomes. */
export type Handle = new (core: Core, data: never) => unknown;

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** Longest `Retry-After` that is waited for, in seconds. */
const LONGEST_WAIT = 60;
const MOST_REDIRECTS = 5;
/** Longer than the longest turn of an agent session, in milliseconds. */
const TURN = 600_000;

/** A segment of a path. An empty one, or one of dots, would name another route. */
export const segment = (id: string | number): string => {
  if (["", ".", ".."].includes(String(id))) throw new TypeError(`${JSON.stringify(id)} is not an ID`);
  return encodeURIComponent(id);
};

/** Node's `fetch` gives up after 300 s without the headers of an answer. */
const NODE_WAITS = 290_000;

/** The `fetch` of Node does not use the proxy of the environment; those of Deno and Bun do. */
async function runtimeFetch(timeout: number): Promise<Fetch> {
  const names = ["http_proxy", "https_proxy", "all_proxy"];
  const isProxied = () => names.some((name) => environment(name) ?? environment(name.toUpperCase()));
  return isNode && (timeout > NODE_WAITS || isProxied()) ? (await import("./node-fetch.js")).nodeFetch : fetch;
}

/** Milliseconds until an answer must be complete, if the caller does not say. */
function defaultTimeout(call: Call): number {
  if (call.slow) return TURN;
  const body = (call.media ? {} : (call.body ?? {})) as { timeout_ms?: number; wait_timeout_ms?: number; timeout_seconds?: number };
  // `timeout_seconds` is the time of each of several steps.
  return (call.retryable ? 90_000 : 150_000) + (body.timeout_ms ?? 0) + (body.wait_timeout_ms ?? 0) + (body.timeout_seconds ?? 0) * 4000;
}

/** Sends requests. It repeats only requests that the contract says may be repeated. */
export class Core {
  readonly url: string;
  readonly options: ClientOptions;
  handles: Record<string, Handle> = {};
  readonly #origin: string;
  readonly #apiKey: string | undefined;

  constructor(options: ClientOptions = {}) {
    const url = options.url ?? environment("KITFLEET_URL") ?? "http://127.0.0.1:8080";
    let parsed: URL;
    try {
      parsed = new URL(url);
    } catch {
      throw new TypeError(`The address of Kitfleet is not a URL: ${JSON.stringify(url)}`);
    }
    if (!/^https?:$/.test(parsed.protocol)) throw new TypeError(`The address of Kitfleet must be http or https: ${url}`);
    this.url = url.replace(/\/+$/, "");
    this.#origin = parsed.origin;
    this.#apiKey = options.apiKey ?? environment("KITFLEET_API_KEY");
    if (this.#apiKey !== undefined && !/^[\x21-\x7e]+$/.test(this.#apiKey)) {
      throw new TypeError("The API key has characters that no key has, such as a space or a line break");
    }
    this.options = options;
  }

  /** JSON of an answer. */
  call<T>(method: string, path: string, options?: RequestOptions, call: Call = {}): Promise<T> {
    const { handle } = call;
    return this.send(method, path, options, call, async (response) => {
      const data = await this.#json(response, (data) => !handle || response.status === 204 || isObject(data));
      return (handle && data !== undefined ? this.wrap(handle, data) : data) as T;
    });
  }

  text(method: string, path: string, options?: RequestOptions, call: Call = {}): Promise<string> {
    return this.send(method, path, options, { accept: "*/*", ...call }, (response) => response.text());
  }

  /** The address that the answer redirects to. */
  location(method: string, path: string, options?: RequestOptions, call: Call = {}): Promise<string> {
    return this.send(method, path, options, call, (response) => Promise.resolve(response.headers.get("location") ?? ""), true);
  }

  /** The address of a WebSocket. */
  address(path: string): string {
    return `${this.url.replace(/^http/, "ws")}${path}`;
  }

  /** An answer whose body is read by the caller. */
  content(method: string, path: string, options?: RequestOptions, call: Call = {}): Promise<Content> {
    const controller = new AbortController();
    const signal = options?.signal ? anySignal([options.signal, controller.signal]) : controller.signal;
    return this.send(method, path, { ...options, signal }, { accept: "*/*", ...call }, (response) =>
      Promise.resolve(new Content(response, controller, options?.timeout ?? this.options.timeout ?? 90_000, options?.signal)),
    );
  }

  page<T>(path: string, options?: RequestOptions, call: Call = {}): Pager<T> {
    const fetchPage = async (cursor: string | null) => {
      const query = cursor === null ? call.query : { ...call.query, cursor };
      const isPage = (data: unknown) => isObject(data) && Array.isArray(data.data);
      const body = await this.send("GET", path, options, { retryable: call.retryable ?? false, query: query ?? {} }, (response) =>
        this.#json<{ data: T[]; has_more?: boolean; next_cursor?: string | null }>(response, isPage),
      );
      if (call.handle) body.data = body.data.map((item) => this.wrap(call.handle as string, item) as T);
      return body;
    };
    return new Pager<T>(fetchPage);
  }

  events(path: string, options?: RequestOptions, call: Call = {}): EventStream {
    const open = (options: RequestOptions, call: Call) => this.send("GET", path, options, call, (response) => Promise.resolve(response));
    return new EventStream(open, options ?? {}, call);
  }

  wrap(handle: string, data: unknown): unknown {
    const constructor = this.handles[handle];
    return constructor ? new constructor(this, data as never) : data;
  }

  /** Sends a request, and reads its answer with `read`. */
  async send<T>(method: string, path: string, options: RequestOptions = {}, call: Call, read: (response: Response) => Promise<T>, redirects = false): Promise<T> {
    const most = options.maxRetries ?? this.options.maxRetries ?? 2;
    for (let attempt = 0; ; attempt++) {
      const repeats = call.retryable === true && attempt < most;
      try {
        return await this.#attempt(method, path, options, call, read, redirects);
      } catch (error) {
        if (!repeats) throw error;
        if (error instanceof ConnectionFailedError) {
          await sleep(backoff(attempt), options.signal);
          continue;
        }
        if (!(error instanceof ProblemError || error instanceof UnexpectedResponseError)) throw error;
        const { status, retryAfter: after } = error;
        if ((status !== 429 && status !== 503) || after === null || after > LONGEST_WAIT) throw error;
        await sleep(after * 1000 + Math.random() * 250, options.signal);
      }
    }
  }

  async #attempt<T>(method: string, path: string, options: RequestOptions, call: Call, read: (response: Response) => Promise<T>, redirects: boolean): Promise<T> {
    const { signal } = options;
    signal?.throwIfAborted();
    // Here, so that a header that HTTP cannot carry is no failed connection.
    const headers = this.#headers(options, call);
    const timeout = options.timeout ?? this.options.timeout ?? defaultTimeout(call);
    const controller = new AbortController();
    const abort = () => controller.abort(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      controller.abort();
    }, timeout);
    try {
      const response = await this.#exchange(method, path, headers, call, controller.signal, redirects, timeout);
      options.onResponse?.({ status: response.status, headers: response.headers, url: response.url });
      if (!response.ok && !(redirects && REDIRECTS.has(response.status))) throw await this.#failure(response, "authorization" in headers);
      return await read(response);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (timedOut) throw new DeadlineExceededError(`No complete answer within ${timeout} ms: ${method} ${path}`, { cause: error });
      if (error instanceof ProblemError || error instanceof UnexpectedResponseError || error instanceof ConnectionFailedError) throw error;
      // The fetch API reports every failure of the network as a TypeError, or as an error of the body's stream.
      const cause = (error as { cause?: { message?: string; code?: string } }).cause;
      const reason = cause?.message || cause?.code || (error as Error).message;
      throw new ConnectionFailedError(`No answer of ${this.#origin}: ${reason}`, { cause: error });
    } finally {
      clearTimeout(timer);
      // The body of a stream is still cancelled by its own signal.
      if (!(call.accept === "*/*" || call.accept === "text/event-stream")) signal?.removeEventListener("abort", abort);
    }
  }

  #headers(options: RequestOptions, call: Call): Record<string, string> {
    const headers: Record<string, string> = { accept: call.accept ?? "application/json" };
    for (const [name, value] of Object.entries({ ...this.options.headers, ...options.headers })) headers[name.toLowerCase()] = value;
    const account = options.account ?? this.options.account;
    if (this.#apiKey) headers.authorization ??= `Bearer ${this.#apiKey}`;
    if (account) headers["x-service-account"] = account;
    if (options.idempotencyKey) headers["idempotency-key"] = options.idempotencyKey;
    if (call.lastEventId) headers["last-event-id"] = call.lastEventId;
    // A page of another origin may not set it.
    if (isNode) headers["user-agent"] ??= `kitfleet-typescript/${VERSION}`;
    for (const [name, value] of Object.entries(headers)) {
      if (/[^\t\x20-\x7e]/.test(value)) throw new TypeError(`The header ${name} has characters that HTTP cannot carry`);
    }
    return headers;
  }

  async #exchange(method: string, path: string, headers: Record<string, string>, call: Call, signal: AbortSignal, redirects: boolean, timeout: number): Promise<Response> {
    const init: RequestInit & { duplex?: "half" } = { method, headers, redirect: "manual", signal };
    if (call.media) {
      headers["content-type"] = call.media;
      init.body = uploadBody(call.body as UploadBody);
      init.duplex = "half";
    } else if (call.form) {
      init.body = new URLSearchParams(Object.entries(call.form).filter(([, value]) => value != null) as [string, string][]);
    } else if (call.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(call.body);
    }
    const send = this.options.fetch ?? (await runtimeFetch(timeout));
    let url = this.url + path + search(call.query);
    for (let followed = 0; ; followed++) {
      const response = await send(url, init);
      if (response.type !== "opaqueredirect" && (redirects || !REDIRECTS.has(response.status))) return response;
      const to = response.headers.get("location");
      await response.body?.cancel();
      const next = to === null ? null : new URL(to, url);
      if (method !== "GET" || next?.origin !== this.#origin || followed >= MOST_REDIRECTS) {
        throw new RedirectError(`${method} ${path} was redirected${next ? ` to ${next.origin}` : ""}, which is not followed. Is the address ${this.url} right?`, response);
      }
      url = next.href;
    }
  }

  async #json<T>(response: Response, isExpected: (data: unknown) => boolean): Promise<T> {
    const text = await response.text();
    let data: unknown;
    try {
      data = response.status === 204 || text === "" ? undefined : JSON.parse(text);
    } catch {
      throw unexpected(response, text, this.url);
    }
    if (!isExpected(data)) throw unexpected(response, text, this.url);
    return data as T;
  }

  async #failure(response: Response, hasKey: boolean): Promise<Error> {
    const text = await response.text();
    let body: Record<string, unknown> | undefined;
    try {
      const parsed: unknown = JSON.parse(text);
      if (isObject(parsed)) body = parsed;
    } catch {
      // Not a problem document.
    }
    if (!body) return unexpected(response, text, this.url);
    const string = (value: unknown) => (typeof value === "string" && value ? value : undefined);
    const code = string(body.code) ?? string(body.type)?.split("/").pop() ?? string(body.error) ?? "unknown";
    const Problem = Object.hasOwn(PROBLEMS, code) ? PROBLEMS[code]! : ProblemError;
    const error = new Problem(code, body, response);
    if (response.status === 401 && !hasKey) error.message += ". The client has no API key: set KITFLEET_API_KEY, or pass apiKey";
    return error;
  }
}

function isObject(data: unknown): data is Record<string, unknown> {
  return typeof data === "object" && data !== null && !Array.isArray(data);
}

function unexpected(response: Response, text: string, url: string): UnexpectedResponseError {
  const type = response.headers.get("content-type")?.split(";")[0] ?? "no content type";
  const excerpt = text.slice(0, 500);
  return new UnexpectedResponseError(`The answer ${response.status} is ${type}, not JSON of Kitfleet. Is the address ${url} right?`, response, excerpt);
}

function search(query: object | undefined): string {
  if (!query) return "";
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) pairs.append(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  const text = pairs.toString();
  return text && `?${text}`;
}

/** `AbortSignal.any`, which Node 20.0 to 20.2 lack. */
function anySignal(signals: AbortSignal[]): AbortSignal {
  if (typeof AbortSignal.any === "function") return AbortSignal.any(signals);
  const controller = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) controller.abort(signal.reason);
    signal.addEventListener("abort", () => controller.abort(signal.reason), { once: true });
  }
  return controller.signal;
}
