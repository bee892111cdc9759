import { type Content, writeFile } from "./content.js";
import { type Core, segment as e } from "./core.js";
import { NotFoundError, SessionDestroyedError } from "./generated/problems.js";
import type * as t from "./generated/types.js";
import { ScriptError } from "./errors.js";
import type { Pager } from "./pager.js";
import type { RequestOptions } from "./request.js";
import { nodeModule } from "./runtime.js";
import type { EventStream } from "./stream.js";

// Older runtimes do not have it, and `await using` is compiled to this name there.
const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? (Symbol.for("Symbol.asyncDispose") as typeof Symbol.asyncDispose);

/** Time and signal of one operation. */
export interface OperationOptions extends RequestOptions {
  /** Milliseconds that the service gives the operation. */
  timeout_ms?: number | undefined;
  /** `return` returns `ok: false` or `matched: false` instead of failing and ending the session. */
  on_timeout?: t.OnTimeout | undefined;
}

type Fields<T, K extends PropertyKey> = Omit<T, K | "kind" | "selector" | "target">;

/** A file to upload: a path, a `File` or `Blob`, or a name with bytes. */
export type FileToUpload = string | File | { name: string; content: Uint8Array | Blob; content_type?: string };

/** What to extract: a selector, whose text is the value, or an extraction without its name. */
export type ExtractionOf = string | (Omit<t.Extraction, "name" | "type"> & { type?: t.ExtractionType });

function split<T extends object>(options: T & OperationOptions): { rest: T; operation: Pick<OperationOptions, "timeout_ms" | "on_timeout">; request: RequestOptions } {
  const { timeout_ms, on_timeout, signal, timeout, maxRetries, headers, account, idempotencyKey, onResponse, ...rest } = options;
  const request = { signal, timeout, maxRetries, headers, account, idempotencyKey, onResponse };
  return { rest: rest as unknown as T, operation: { timeout_ms, on_timeout }, request };
}

const base64 = (bytes: Uint8Array): string => {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 32_768) binary += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(binary);
};

const fromBase64 = (text: string): Uint8Array => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

async function fileToUpload(file: FileToUpload): Promise<t.UploadFile> {
  if (typeof file === "string") {
    const { readFile } = (await nodeModule("node:fs/promises")) as typeof import("node:fs/promises");
    return { name: file.split(/[\\/]/).pop() || file, content: base64(await readFile(file)) };
  }
  const content = file instanceof Blob ? file : file.content;
  const bytes = content instanceof Uint8Array ? content : new Uint8Array(await content.arrayBuffer());
  const type = (file instanceof Blob ? file.type : file.content_type) || undefined;
  return { name: file.name, content: base64(bytes), ...(type && { content_type: type }) };
}

const filesToUpload = (files: FileToUpload | FileToUpload[]) => Promise.all((Array.isArray(files) ? files : [files]).map(fileToUpload));

/** Escapes a text for a string of CSS. */
const quoted = (text: string) => `"${text.replace(/["\\]/g, "\\$&").replace(/[\n\r\f]/g, (character) => `\\${character.charCodeAt(0).toString(16)} `)}"`;

type Target = { selector: string } | { target: NonNullable<t.Target> };

/** An element of the active page, found anew by each action. */
export class Locator {
  readonly #session: Session;
  readonly #target: Target;

  constructor(session: Session, target: Target) {
    this.#session = session;
    this.#target = target;
  }

  /** Members that name the element in a request. */
  toJSON(): Target {
    return this.#target;
  }

  #act(kind: string, options: OperationOptions, fields: object = {}): Promise<t.Interacted> {
    return this.#session.interact({ kind, ...this.#target, ...fields } as t.Action, options);
  }

  /** Taps the element: `count` times, or for `hold_ms`, at its center or `at` a point of it. */
  tap(options: Fields<t.TapAction, never> & OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("tap", options, split(options).rest);
  }

  /** Types after the text that is there. */
  type(text: string, options: Fields<t.TypeAction, "text"> & OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("type", options, { ...split(options).rest, text });
  }

  /** Replaces the content of a field. */
  fill(value: string, options: OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("fill", options, { value });
  }

  /** Empties a field. */
  clear(options: OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("clear", options);
  }

  /** Checks a checkbox, a switch or a radio button. */
  check(options: OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("check", options, { checked: true });
  }

  /** Unchecks a checkbox or a switch. */
  uncheck(options: OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("check", options, { checked: false });
  }

  /** Chooses options of a `<select>` by their text or value. */
  select(option: string | string[], options: OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("select", options, Array.isArray(option) ? { options: option } : { option });
  }

  /** Moves the mouse over the element without pressing. */
  hover(options: Fields<t.HoverAction, never> & OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("hover", options, split(options).rest);
  }

  /** Drags to another element, or along a path of points. */
  drag(to: Locator | t.Point[], options: Fields<t.DragAction, "to" | "path"> & { at?: t.Point } & OperationOptions = {}): Promise<t.Interacted> {
    const { at, ...rest } = split(options).rest;
    return this.#act("drag", options, { ...rest, ...(to instanceof Locator ? { to: { ...to.toJSON(), ...(at && { at }) } } : { path: to }) });
  }

  /** Swipes with a finger, beginning on the element. */
  swipe(direction: t.SwipeDirection, options: Fields<t.SwipeAction, "direction"> & OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("swipe", options, { ...split(options).rest, direction });
  }

  /** Scrolls the element by CSS pixels. */
  scroll(deltaX: number, deltaY: number, options: OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("scroll", options, { delta_x: deltaX, delta_y: deltaY });
  }

  /** Gives files to a file input, or to the chooser that a tap on the element opens. */
  async upload(files: FileToUpload | FileToUpload[], options: OperationOptions = {}): Promise<t.Interacted> {
    return this.#act("upload", options, { files: await filesToUpload(files) });
  }

  /** A picture of the element, which is also written to `path`. */
  screenshot(options: ScreenshotOptions = {}): Promise<Uint8Array> {
    return this.#session.capture({ ...this.#target, ...options });
  }

  /** Waits until the element is visible, or hidden. */
  waitFor(options: { state?: "visible" | "hidden" } & OperationOptions = {}): Promise<t.Waited> {
    const kind = options.state === "hidden" ? "selector_hidden" : "selector";
    return this.#session.wait({ kind, ...this.#target } as t.Condition, split(options).operation as OperationOptions & RequestOptions, split(options).request);
  }

  async #extract<T>(extraction: Omit<t.Extraction, "name">, options?: RequestOptions): Promise<T | null> {
    const value = await this.#session.extract({ value: { ...this.#target, ...extraction } }, options);
    return (value.value ?? null) as T | null;
  }

  /** The text of the element, or null without one. */
  text(options?: RequestOptions): Promise<string | null> {
    return this.#extract({ type: "text" }, options);
  }

  /** The number in the text of the element. */
  number(options?: RequestOptions): Promise<number | null> {
    return this.#extract({ type: "text", transform: "number" }, options);
  }

  /** The content of a field. */
  value(options?: RequestOptions): Promise<string | null> {
    return this.#extract({ type: "value" }, options);
  }

  /** The value of an attribute, or null without it. */
  attribute(name: string, options?: RequestOptions): Promise<string | null> {
    return this.#extract({ type: "attribute", attribute: name }, options);
  }

  /** Position and size in CSS pixels of the viewport. */
  box(options?: RequestOptions): Promise<{ x: number; y: number; width: number; height: number } | null> {
    return this.#extract({ type: "box" }, options);
  }
}

export type ScreenshotOptions = Omit<t.Capture, "kind" | "selector" | "target" | "paper" | "landscape" | "margins" | "background"> & {
  /** File that the picture is written to as well. */
  path?: string;
} & RequestOptions;

/** A page (tab) of a session. */
// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging
export class PageHandle {
  readonly #session: Session;
  constructor(session: Session, data: t.SessionPage) {
    this.#session = session;
    Object.assign(this, data);
  }
  /** Makes this the page that operations act on. */
  async activate(options?: RequestOptions): Promise<void> {
    Object.assign(this, await this.#session.request("POST", `/pages/${e(this.id)}/activate`, options, { retryable: true }));
  }
  /** Closes the page. The last page of a session cannot be closed. */
  close(options?: RequestOptions): Promise<void> {
    return this.#session.request("DELETE", `/pages/${e(this.id)}`, options, { retryable: true });
  }
}
export interface PageHandle extends t.SessionPage {}

/** A file that a page has downloaded. */
export class DownloadHandle {
  readonly #session: Session;
  constructor(session: Session, data: t.DownloadRef) {
    this.#session = session;
    Object.assign(this, data);
  }
  /** The content, as it arrives. A download in progress is waited for. */
  content(options?: RequestOptions): Promise<Content> {
    return this.#session.content(`/downloads/${e(this.id)}/content`, options);
  }
  /** Writes the content to a file, which exists only once it is complete. */
  async save(path: string, options?: RequestOptions): Promise<void> {
    await (await this.content(options)).save(path);
  }
  /** The whole content. */
  async read(options?: RequestOptions): Promise<Uint8Array> {
    return (await this.content(options)).read();
  }
}
export interface DownloadHandle extends t.DownloadRef, Partial<Omit<t.Download, keyof t.DownloadRef>> {}

/** A browser session. It ends with `close`, or at the end of a block with `await using`. */
export class Session implements AsyncDisposable {
  readonly #core: Core;

  constructor(core: Core, data: t.Session) {
    this.#core = core;
    Object.assign(this, data);
  }

  /** A request below the session's own path. */
  request<T>(method: string, path: string, options?: RequestOptions, call?: { body?: unknown; query?: object; retryable?: boolean }): Promise<T> {
    return this.#core.call<T>(method, `/v1/sessions/${e(this.id)}${path}`, options, call);
  }

  /** A file below the session's own path. */
  content(path: string, options?: RequestOptions, query: object = {}): Promise<Content> {
    return this.#core.content("GET", `/v1/sessions/${e(this.id)}${path}`, options, { query, retryable: true });
  }

  /** Reads the session's status again. */
  async refresh(options?: RequestOptions): Promise<this> {
    return Object.assign(this, await this.request("GET", "", options, { retryable: true }));
  }

  /** Destroys the session. One that has ended already is no error. */
  async close(options?: RequestOptions): Promise<void> {
    try {
      await this.request("DELETE", "", options, { retryable: true });
    } catch (error) {
      if (!(error instanceof SessionDestroyedError || error instanceof NotFoundError)) throw error;
    }
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  // Elements

  /** The element that a CSS selector matches; ` >>> ` enters a frame. */
  locator(selector: string): Locator {
    return new Locator(this, { selector });
  }
  /** The element with an ARIA role and, if given, an accessible name. */
  getByRole(role: t.ElementRole, options: { name?: string; exact?: boolean } = {}): Locator {
    return new Locator(this, { target: { role, ...options } });
  }
  /** The element with a text; the whole text with `exact`. */
  getByText(text: string, options: { exact?: boolean } = {}): Locator {
    return new Locator(this, { target: { text, ...options } });
  }
  /** The field with a label. */
  getByLabel(label: string, options: { exact?: boolean } = {}): Locator {
    return new Locator(this, { target: { label, ...options } });
  }
  /** The field with a placeholder. */
  getByPlaceholder(placeholder: string, options: { exact?: boolean } = {}): Locator {
    return new Locator(this, { target: { placeholder, ...options } });
  }
  /** The element whose attribute `data-testid` is `id`. */
  getByTestId(id: string): Locator {
    return this.locator(`[data-testid=${quoted(id)}]`);
  }
  /** The element with a `ref` of a snapshot. */
  getByRef(ref: string): Locator {
    return new Locator(this, { target: { ref } });
  }

  // Navigating and acting

  /** Loads an address in the active page, and waits for `wait_until`. */
  navigate(url: string, options: Omit<t.Navigate, "url" | "timeout_ms" | "on_timeout"> & OperationOptions = {}): Promise<t.Navigated> {
    const { rest, operation, request } = split(options);
    return this.request("POST", "/navigate", request, { body: { url, ...rest, ...operation } });
  }

  /** Performs an action. The methods of locators are shorter. */
  interact(action: t.Action, options: OperationOptions = {}): Promise<t.Interacted> {
    const { operation, request } = split(options);
    return this.request("POST", "/interact", request, { body: { action, ...operation } });
  }

  /** Goes back in the history of the page. */
  back(options?: OperationOptions): Promise<t.Interacted> {
    return this.interact({ kind: "back" }, options);
  }
  /** Goes forward in the history of the page. */
  forward(options?: OperationOptions): Promise<t.Interacted> {
    return this.interact({ kind: "forward" }, options);
  }
  /** Loads the page again. */
  reload(options?: OperationOptions): Promise<t.Interacted> {
    return this.interact({ kind: "reload" }, options);
  }
  /** Presses a key with its modifiers, such as `Shift+Tab`, on the element with the focus. */
  press(key: string, options?: OperationOptions): Promise<t.Interacted> {
    return this.interact({ kind: "press", key }, options);
  }
  /** Taps a point of the viewport. */
  tapAt(x: number, y: number, options?: OperationOptions): Promise<t.Interacted> {
    return this.interact({ kind: "tap", at: { x, y } }, options);
  }
  /** Swipes with a finger in the viewport. */
  swipe(direction: t.SwipeDirection, options: Fields<t.SwipeAction, "direction"> & OperationOptions = {}): Promise<t.Interacted> {
    return this.interact({ kind: "swipe", direction, ...split(options).rest }, options);
  }
  /** Scrolls the page by CSS pixels. */
  scroll(deltaX: number, deltaY: number, options?: OperationOptions): Promise<t.Interacted> {
    return this.interact({ kind: "scroll", delta_x: deltaX, delta_y: deltaY }, options);
  }
  /** Gives files to the chooser that the last tap has opened. */
  async upload(files: FileToUpload | FileToUpload[], options?: OperationOptions): Promise<t.Interacted> {
    return this.interact({ kind: "upload", files: await filesToUpload(files) }, options);
  }
  /** Accepts the open dialog; `text` answers a prompt. */
  acceptDialog(text?: string, options?: OperationOptions): Promise<t.Interacted> {
    return this.interact({ kind: "dialog", accept: true, ...(text !== undefined && { text }) }, options);
  }
  /** Dismisses the open dialog. */
  dismissDialog(options?: OperationOptions): Promise<t.Interacted> {
    return this.interact({ kind: "dialog", accept: false }, options);
  }
  /** Enters a query in the search field of the page, and submits it. */
  search(query: string, options: Omit<t.SessionSearch, "query"> & RequestOptions = {}): Promise<t.SearchResult> {
    const { rest, request } = split(options);
    return this.request("POST", "/search", request, { body: { query, ...rest } });
  }
  /** Enters user name and password in the form of the page, and submits it. */
  login(username: string, password: string, options: Omit<t.SessionLogin, "username" | "password"> & RequestOptions = {}): Promise<t.LoginResult> {
    const { rest, request } = split(options);
    return this.request("POST", "/login", request, { body: { username, password, ...rest } });
  }

  // Waiting

  /** Waits for a condition. The methods below are shorter. */
  wait(condition: t.Condition, options: OperationOptions = {}, also: RequestOptions = {}): Promise<t.Waited> {
    const { operation, request } = split(options);
    return this.request("POST", "/wait", { ...also, ...definedOf(request) }, { body: { condition, ...operation }, retryable: true });
  }
  /** Waits until an element matches a CSS selector and is visible. */
  waitForSelector(selector: string, options?: OperationOptions): Promise<t.Waited> {
    return this.wait({ kind: "selector", selector }, options);
  }
  /** Waits until the address matches a regular expression. */
  waitForUrl(pattern: string, options?: OperationOptions): Promise<t.Waited> {
    return this.wait({ kind: "url_matches", pattern }, options);
  }
  /** Waits until the page shows a text. */
  waitForText(text: string, options?: OperationOptions): Promise<t.Waited> {
    return this.wait({ kind: "text", text }, options);
  }
  /** Waits until the body of an async function returns something truthy. */
  waitForFunction(script: string, options?: OperationOptions): Promise<t.Waited> {
    return this.wait({ kind: "function", script }, options);
  }
  /** Waits for the response to a request whose address matches a regular expression. */
  waitForResponse(urlPattern: string, options: { status?: number } & OperationOptions = {}): Promise<t.Waited> {
    return this.wait({ kind: "response", url_pattern: urlPattern, ...(options.status !== undefined && { status: options.status }) }, options);
  }
  /** Waits until the page has reached a state of loading. */
  waitForLoadState(state: t.WaitUntil = "load", options?: OperationOptions): Promise<t.Waited> {
    return this.wait({ kind: "load_state", state }, options);
  }
  /** Waits for a time. */
  waitForTime(milliseconds: number, options?: OperationOptions): Promise<t.Waited> {
    return this.wait({ kind: "time", ms: milliseconds }, options);
  }
  /** Waits for a page that the previous operation opened, or that opens now, and returns the active page. */
  async waitForPage(options?: OperationOptions): Promise<PageHandle> {
    await this.wait({ kind: "page" }, options);
    const pages = await this.pages(options);
    return pages.find((page) => page.active) ?? pages[pages.length - 1]!;
  }
  /** Waits for a download that the previous operation began, or that begins now. */
  async waitForDownload(options?: OperationOptions): Promise<DownloadHandle> {
    const waited = await this.wait({ kind: "download" }, options);
    if (!waited.download) throw new Error("No download began");
    return new DownloadHandle(this, waited.download);
  }

  // Reading

  /** Runs the body of an async function in the page and returns its value; its arguments are `args`. */
  async evaluate<T = unknown>(script: string, args: unknown[] = [], options: OperationOptions = {}): Promise<T> {
    const { operation, request } = split(options);
    const result = await this.request<t.Evaluated>("POST", "/evaluate", request, { body: { script, args, ...operation } });
    if (result.exception) throw new ScriptError(result.exception);
    return result.value as T;
  }

  /** Extracts values: `{ title: "h1", price: { selector: ".price", type: "text", transform: "number" } }`. */
  async extract<K extends string>(extractions: Record<K, ExtractionOf>, options?: RequestOptions): Promise<Record<K, unknown>> {
    const list = Object.entries<ExtractionOf>(extractions).map(([name, extraction]) => ({ name, type: "text", ...(typeof extraction === "string" ? { selector: extraction } : extraction) }));
    const result = await this.request<t.Extracted>("POST", "/extract", options, { body: { extractions: list }, retryable: true });
    return (result.value ?? {}) as Record<K, unknown>;
  }

  /** The accessible elements of the page, as text. */
  snapshot(fields: t.PageSnapshotRequest = {}, options?: RequestOptions): Promise<t.PageSnapshot> {
    return this.request("POST", "/snapshot", options, { body: fields, retryable: true });
  }
  /** Address, title and load state of the active page. */
  state(options?: RequestOptions): Promise<t.SessionState> {
    return this.request("GET", "/state", options, { retryable: true });
  }
  /** A picture of the viewport or the whole page, which is also written to `path`. */
  screenshot(options: ScreenshotOptions = {}): Promise<Uint8Array> {
    return this.capture(options);
  }
  /** The page as PDF, which is also written to `path`. */
  pdf(options: Pick<t.Capture, "paper" | "landscape" | "margins" | "background"> & { path?: string } & RequestOptions = {}): Promise<Uint8Array> {
    return this.capture({ kind: "pdf", ...options });
  }
  /** The document as HTML. */
  async html(options?: RequestOptions): Promise<string> {
    return new TextDecoder().decode(await this.capture({ kind: "dom_snapshot", ...options }));
  }
  /** A picture, a PDF or the HTML of the page. `screenshot`, `pdf` and `html` are shorter. */
  async capture(options: Partial<t.Capture> & { path?: string } & RequestOptions): Promise<Uint8Array> {
    const { rest, request } = split(options as Partial<t.Capture> & { path?: string } & OperationOptions);
    const { path, ...body } = rest;
    const captured = await this.request<t.Captured>("POST", "/capture", request, { body: { kind: "screenshot", ...body }, retryable: true });
    const bytes = captured.encoding === "base64" ? fromBase64(captured.content) : new TextEncoder().encode(captured.content);
    if (path) await writeFile(path, bytes);
    return bytes;
  }

  // Pages, downloads, cookies, emulation

  /** The pages of the session. */
  async pages(options?: RequestOptions): Promise<PageHandle[]> {
    const { data } = await this.request<t.SessionPages>("GET", "/pages", options, { retryable: true });
    return data.map((page) => new PageHandle(this, page));
  }
  /** Opens a page, and makes it the active one. */
  async openPage(url?: string, options?: RequestOptions): Promise<PageHandle> {
    return new PageHandle(this, await this.request<t.SessionPage>("POST", "/pages", options, { body: url === undefined ? {} : { url } }));
  }
  /** The downloads of the session. */
  async downloads(options?: RequestOptions): Promise<DownloadHandle[]> {
    const { data } = await this.request<t.DownloadList>("GET", "/downloads", options, { retryable: true });
    return data.map((download) => new DownloadHandle(this, download));
  }
  /** The cookies of the session. */
  async cookies(options?: RequestOptions): Promise<t.SessionCookies["data"]> {
    return (await this.request<t.SessionCookies>("GET", "/cookies", options, { retryable: true })).data;
  }
  /** Adds cookies, or replaces those of the same name, domain and path. */
  setCookies(cookies: t.SessionCookieSet[], options?: RequestOptions): Promise<void> {
    return this.request("PUT", "/cookies", options, { body: { cookies }, retryable: true });
  }
  /** Deletes the cookies that match all given members, or all cookies. */
  clearCookies(filter: { name?: string; domain?: string; path?: string } = {}, options?: RequestOptions): Promise<void> {
    return this.request("DELETE", "/cookies", options, { query: filter, retryable: true });
  }
  /** Changes the emulation; null resets a member. */
  emulate(changes: t.SessionEmulationUpdate, options?: RequestOptions): Promise<t.SessionEmulation> {
    return this.request("PATCH", "/emulation", options, { body: changes, retryable: true });
  }
  /** Marks a challenge as solved, so that the operation that waits for it continues. */
  resolveChallenge(id: string, options?: RequestOptions): Promise<t.ResolvedChallenge> {
    return this.request("POST", `/challenges/${e(id)}/resolve`, options, { retryable: true });
  }

  // Watching

  /** A ticket to watch or to control the session once. */
  liveTicket(fields: t.LiveTicketRequest = {}, options?: RequestOptions): Promise<t.LiveTicket> {
    return this.request("POST", "/live-tickets", options, { body: fields });
  }
  /** A link to watch the session, for people without an account. */
  liveLink(fields: t.CreateLiveLink = {}, options?: RequestOptions): Promise<t.NewlyMadeLiveLink> {
    return this.request("POST", "/live-links", options, { body: fields });
  }

  // The record of the session

  /** Operations of the session, newest first. */
  operations(options?: RequestOptions): Pager<t.SessionOperation> {
    return this.#list("/operations", options);
  }
  /** Events of the session, oldest first. */
  timeline(options?: RequestOptions): Pager<t.TimelineEvent> {
    return this.#list("/timeline", options);
  }
  /** Events of the session as they happen, until it ends. */
  timelineStream(query: { last_event_id?: string } = {}, options?: RequestOptions): EventStream {
    return this.#core.events(`/v1/sessions/${e(this.id)}/timeline`, options, { query });
  }
  /** Lines of the console, oldest first. */
  console(options?: RequestOptions): Pager<t.ConsoleEntry> {
    return this.#list("/console", options);
  }
  /** Requests of the pages, oldest first. */
  requests(options?: RequestOptions): Pager<t.RequestEntry> {
    return this.#list("/requests", options);
  }
  /** The picture (JPEG) of an event of the type `frame`. */
  async frame(seq: number, options?: RequestOptions): Promise<Uint8Array> {
    return (await this.content(`/frames/${seq}`, options)).read();
  }
  /** The requests as HAR 1.2, without bodies. */
  har(options?: RequestOptions): Promise<Record<string, unknown>> {
    return this.content("/har", options).then((content) => content.json());
  }
  /** Writes the trace, which Playwright's viewer opens, to a file. */
  async trace(path: string, options: { format?: number } & RequestOptions = {}): Promise<void> {
    const { format, ...request } = options;
    await (await this.content("/trace", request, { format })).save(path);
  }
  /** A link to the trace that needs no credential. */
  traceLink(fields: { expires_in?: number } = {}, options?: RequestOptions): Promise<t.NewTraceLinkBody> {
    return this.request("POST", "/trace-links", options, { body: fields });
  }
  /** Deletes the recording, and ends the links to its trace. */
  deleteRecording(options?: RequestOptions): Promise<void> {
    return this.request("DELETE", "/recording", options, { retryable: true });
  }

  #list<T>(path: string, options?: RequestOptions): Pager<T> {
    return this.#core.page<T>(`/v1/sessions/${e(this.id)}${path}`, options, { retryable: true });
  }
}
export interface Session extends t.Session {}

function definedOf<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T;
}

/** The outcome of a message to an agent session. */
export class Turn {
  readonly #agent: AgentSession;

  constructor(agent: AgentSession, data: t.AgentTurn) {
    this.#agent = agent;
    Object.assign(this, data);
  }

  /** Steps that wait for approval. */
  get waiting(): t.AgentIntent[] {
    return this.intents.filter((intent) => intent.status === "needs_approval");
  }

  /** Results of the steps that were carried out. */
  get results(): unknown[] {
    return this.intents.filter((intent) => intent.status === "done").map((intent) => intent.result);
  }

  /** Approves the steps that wait, and continues the plan. */
  approve(message = "approved", options?: RequestOptions): Promise<Turn> {
    return this.#agent.send(message, { approvals: this.waiting.map((intent) => intent.id) }, options);
  }
}
export interface Turn extends t.AgentTurn {}

/** A browser that messages drive. It ends with `close`, or at the end of a block with `await using`. */
export class AgentSession implements AsyncDisposable {
  readonly #core: Core;

  constructor(core: Core, data: t.AgentSession) {
    this.#core = core;
    Object.assign(this, data);
  }

  #request<T>(method: string, path: string, options?: RequestOptions, call?: { body?: unknown; query?: object; retryable?: boolean; slow?: boolean }): Promise<T> {
    return this.#core.call<T>(method, `/v1/agent-sessions/${e(this.id)}${path}`, options, call);
  }

  /** Reads the agent session's status again. */
  async refresh(options?: RequestOptions): Promise<this> {
    return Object.assign(this, await this.#request("GET", "", options, { retryable: true }));
  }

  /** Closes the agent session; `purge` deletes it with its transcript. One that has ended already is no error. */
  async close(fields: { purge?: boolean } = {}, options?: RequestOptions): Promise<void> {
    try {
      await this.#request("DELETE", "", options, { query: fields, retryable: true });
    } catch (error) {
      if (!(error instanceof SessionDestroyedError || error instanceof NotFoundError)) throw error;
    }
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Sends a message, and returns when its turn has ended. */
  async send(message: string, fields: { approvals?: string[] } = {}, options: RequestOptions = {}): Promise<Turn> {
    const turn = await this.#request<t.AgentTurn>("POST", "/message", options, { body: { message, ...fields }, slow: true });
    return new Turn(this, turn);
  }

  /** The browser that the messages drive. */
  session(options?: RequestOptions): Promise<Session> {
    return this.#core.call("GET", `/v1/sessions/${e(this.session_id)}`, options, { retryable: true, handle: "Session" });
  }

  /** Messages and turns, oldest first. */
  transcript(options?: RequestOptions): Pager<t.AgentTranscriptEntry> {
    return this.#core.page(`/v1/agent-sessions/${e(this.id)}/transcript`, options, { retryable: true });
  }

  /** Keeps a file for the step `upload "NAME" into ELEMENT`. */
  async upload(file: FileToUpload, options?: RequestOptions): Promise<t.AgentFile> {
    return this.#request("POST", "/files", options, { body: await fileToUpload(file) });
  }

  /** Chooses who drives: `ai`, `pair` or `manual`. */
  async setMode(mode: t.AgentSessionMode, options?: RequestOptions): Promise<this> {
    return Object.assign(this, await this.#request("POST", "/mode", options, { body: { mode } }));
  }

  /** A person drives from now on, until `handBack`. */
  async takeOver(clientId: string, options?: RequestOptions): Promise<this> {
    return Object.assign(this, await this.#request("POST", "/takeover", options, { body: { client_id: clientId } }));
  }

  /** Ends the control by a person. */
  async handBack(clientId: string, options?: RequestOptions): Promise<this> {
    return Object.assign(this, await this.#request("POST", "/handback", options, { body: { client_id: clientId } }));
  }

  /** Keeps the control of a person alive. */
  async heartbeat(clientId: string, options?: RequestOptions): Promise<this> {
    return Object.assign(this, await this.#request("POST", "/heartbeat", options, { body: { client_id: clientId } }));
  }

  /** Ends the running turn after its current step. */
  async cancel(options?: RequestOptions): Promise<this> {
    return Object.assign(this, await this.#request("POST", "/cancel", options));
  }

  /** Saves the steps that were carried out as a recipe. */
  saveRecipe(label: string, options?: RequestOptions): Promise<t.Recipe> {
    return this.#core.call("POST", "/v1/recipes", options, { body: { agent_session_id: this.id, label } });
  }
}
export interface AgentSession extends t.AgentSession {}
