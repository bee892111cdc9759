import { ConnectionFailedError } from "./errors.js";
import type { Call, RequestOptions } from "./request.js";
import { backoff, idle, sleep } from "./timing.js";

/** One event of a stream. */
export interface ServerEvent {
  id: string;
  event: string;
  data: Record<string, unknown>;
}

/** The service sends a comment every 15 s. */
const SILENCE = 60_000;
/** Attempts to connect again, without an event in between, before the stream fails. */
const ATTEMPTS = 10;

/**
 * Events as they happen. A stream that breaks is opened again after the last event, so that none is lost. It ends after the
 * service's event `end`, when the loop is left, or when its signal is aborted, and fails with a problem, such as
 * `UnauthorizedError` when the key was revoked.
 */
export class EventStream implements AsyncIterable<ServerEvent> {
  readonly #open: (options: RequestOptions, call: Call) => Promise<Response>;
  readonly #options: RequestOptions;
  readonly #call: Call;
  /** ID of the last event; pass it as `last_event_id` to continue after it in another process. */
  lastEventId: string | undefined;

  constructor(open: (options: RequestOptions, call: Call) => Promise<Response>, options: RequestOptions, call: Call) {
    this.#open = open;
    this.#options = options;
    const { last_event_id: last, ...query } = (call.query ?? {}) as { last_event_id?: string };
    this.#call = { ...call, query };
    this.lastEventId = last;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ServerEvent, void, undefined> {
    const { signal } = this.#options;
    let failures = 0;
    let pause: number | undefined;
    for (;;) {
      const controller = new AbortController();
      const abort = () => controller.abort(signal?.reason);
      if (signal?.aborted) abort();
      signal?.addEventListener("abort", abort, { once: true });
      try {
        const response = await this.#open(
          { ...this.#options, signal: controller.signal, maxRetries: this.#options.maxRetries ?? ATTEMPTS },
          { ...this.#call, retryable: true, accept: "text/event-stream", lastEventId: this.lastEventId },
        );
        for await (const event of events(response, controller, (milliseconds) => (pause = milliseconds))) {
          failures = 0;
          if (event.id) this.lastEventId = event.id;
          if (event.event === "end") return;
          yield event;
        }
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (!(error as { broken?: boolean }).broken || failures >= ATTEMPTS) throw error;
      } finally {
        signal?.removeEventListener("abort", abort);
        // Also when the caller has left the loop: closes the connection.
        controller.abort();
      }
      // The service ended the stream, because it stops or the key does not count any more: the next attempt tells which.
      failures += 1;
      if (failures > ATTEMPTS) throw new ConnectionFailedError("The stream ended several times without an event");
      await sleep(pause ?? backoff(failures - 1), signal);
    }
  }
}

async function* events(response: Response, controller: AbortController, pause: (milliseconds: number) => void): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  let event = { id: "", event: "", data: [] as string[] };
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { done, value } = await idle(reader.read(), SILENCE, controller);
      rest += decoder.decode(value, { stream: !done });
      // A carriage return at the end may be half of a line's end.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (event.data.length > 0) yield { id: event.id, event: event.event || "message", data: parse(event.data.join("\n")) };
          event = { id: event.id, event: "", data: [] };
          continue;
        }
        const colon = line.indexOf(":");
        const name = colon < 0 ? line : line.slice(0, colon);
        const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (name === "data") event.data.push(text);
        else if (name === "event") event.event = text;
        else if (name === "id" && !text.includes("\0")) event.id = text;
        else if (name === "retry" && /^\d+$/.test(text)) pause(Number(text));
      }
      if (done) return;
    }
  } catch (error) {
    throw Object.assign(new ConnectionFailedError("The stream broke", { cause: error }), { broken: true });
  }
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return { text };
  }
}
