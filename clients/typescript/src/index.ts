import { type ClientOptions, Core, type Handle } from "./core.js";
import { Resources } from "./generated/resources.js";
import { AgentSession, Session } from "./handles.js";
import type { Call, RequestOptions } from "./request.js";

/** Client of a Kitfleet service. `client.sessions.create()` opens a browser. */
export class Kitfleet extends Resources {
  readonly #core: Core;

  constructor(options: ClientOptions = {}) {
    const core = new Core(options);
    super(core);
    core.handles = { Session: Session as unknown as Handle, AgentSession: AgentSession as unknown as Handle };
    this.#core = core;
  }

  /** Address of the service. */
  get url(): string {
    return this.#core.url;
  }

  /**
   * Sends any request and returns the answer of `fetch`, whose body the caller reads. Problems are thrown. It is repeated only
   * with `retryable: true`.
   */
  request(method: string, path: string, call: Pick<Call, "body" | "query" | "retryable"> = {}, options?: RequestOptions): Promise<Response> {
    return this.#core.send(method, path, options, { accept: "*/*", ...call }, (response) => Promise.resolve(response));
  }
}

export { Content, type UploadBody } from "./content.js";
export type { ClientOptions } from "./core.js";
export * from "./errors.js";
export * from "./generated/problems.js";
export type * as types from "./generated/types.js";
export { VERSION } from "./generated/version.js";
export { AgentSession, DownloadHandle, type ExtractionOf, type FileToUpload, Locator, type OperationOptions, PageHandle, type ScreenshotOptions, Session, Turn } from "./handles.js";
export { Page, Pager } from "./pager.js";
export type { RequestOptions } from "./request.js";
export { EventStream, type ServerEvent } from "./stream.js";
export { type VerifyOptions, verifyWebhook } from "./webhooks.js";
