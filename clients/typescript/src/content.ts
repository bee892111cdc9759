import { ConnectionFailedError, DeadlineExceededError } from "./errors.js";
import { nodeModule } from "./runtime.js";
import { idle } from "./timing.js";

/** A body that is sent as it is. */
export type UploadBody = string | Uint8Array | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | object;

export function uploadBody(body: UploadBody): BodyInit {
  if (typeof body === "string" || body instanceof Uint8Array || body instanceof Blob || body instanceof ReadableStream) return body as BodyInit;
  if (Symbol.asyncIterator in body) {
    const iterator = (body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
    return new ReadableStream<Uint8Array>({
      async pull(controller) {
        const { done, value } = await iterator.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await iterator.return?.();
      },
    });
  }
  return JSON.stringify(body);
}

/** A file of the service, which is read as it arrives. Read it to its end, or `cancel` it. */
export class Content implements AsyncIterable<Uint8Array> {
  readonly contentType: string;
  /** The name that the service suggests. */
  readonly fileName: string | null;
  readonly headers: Headers;
  readonly #response: Response;
  readonly #controller: AbortController;
  readonly #timeout: number;
  readonly #signal: AbortSignal | undefined;

  constructor(response: Response, controller: AbortController, timeout: number, signal?: AbortSignal) {
    this.#response = response;
    this.#controller = controller;
    this.#timeout = timeout;
    this.#signal = signal;
    this.headers = response.headers;
    this.contentType = response.headers.get("content-type") ?? "application/octet-stream";
    this.fileName = fileName(response.headers.get("content-disposition") ?? "");
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    const reader = this.#response.body?.getReader();
    if (!reader) return;
    let complete = false;
    try {
      for (;;) {
        const { done, value } = await idle(reader.read(), this.#timeout, this.#controller);
        if (done) break;
        yield value;
      }
      complete = true;
    } catch (error) {
      if (this.#signal?.aborted) throw this.#signal.reason;
      if (error instanceof DeadlineExceededError) throw error;
      throw new ConnectionFailedError("The connection ended before the content was complete", { cause: error });
    } finally {
      if (!complete) this.cancel();
    }
  }

  /** The whole content. */
  async read(): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    let length = 0;
    for await (const part of this) {
      parts.push(part);
      length += part.length;
    }
    const all = new Uint8Array(length);
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  /** The whole content as text. */
  async text(): Promise<string> {
    return new TextDecoder().decode(await this.read());
  }

  /** The content as JSON. */
  async json<T = unknown>(): Promise<T> {
    return JSON.parse(await this.text()) as T;
  }

  /** Writes the content to a file, which exists only once it is complete. Not in a browser or a worker. */
  async save(path: string): Promise<void> {
    await writeFile(path, this);
  }

  /** Closes the connection without reading the rest. */
  cancel(): void {
    this.#controller.abort();
  }
}

/** Writes to a temporary file first, so that a failure leaves no incomplete file. */
export async function writeFile(path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
  const { open, rename, rm } = (await nodeModule("node:fs/promises")) as typeof import("node:fs/promises");
  const part = `${path}.${Math.random().toString(36).slice(2)}.part`;
  const file = await open(part, "wx");
  try {
    if (content instanceof Uint8Array) await file.writeFile(content);
    else for await (const chunk of content) await file.writeFile(chunk);
    await file.close();
    await rename(part, path);
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(part, { force: true });
    throw error;
  }
}

function fileName(disposition: string): string | null {
  const extended = /filename\*\s*=\s*UTF-8''([^;]+)/i.exec(disposition)?.[1];
  if (extended) {
    try {
      return decodeURIComponent(extended.trim());
    } catch {
      // Falls back to the plain name.
    }
  }
  const plain = /filename\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^;\s]+))/i.exec(disposition);
  return plain?.[1]?.replace(/\\(.)/g, "$1") ?? plain?.[2] ?? null;
}
