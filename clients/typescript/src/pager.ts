interface Body<T> {
  data: T[];
  has_more?: boolean;
  next_cursor?: string | null;
}

/** One page of a list. Iterating over it yields its entries and those of all later pages. */
export class Page<T> implements AsyncIterable<T> {
  readonly data: T[];
  readonly hasMore: boolean;
  readonly nextCursor: string | null;
  /** The whole answer, with members that only some lists have. */
  readonly body: Record<string, unknown>;
  readonly #fetch: (cursor: string | null) => Promise<Body<T>>;

  constructor(body: Body<T>, fetch: (cursor: string | null) => Promise<Body<T>>) {
    this.data = body.data;
    this.nextCursor = body.next_cursor ?? null;
    this.hasMore = this.nextCursor !== null && body.has_more !== false;
    this.body = body as unknown as Record<string, unknown>;
    this.#fetch = fetch;
  }

  /** The next page, or null after the last one. */
  async next(): Promise<Page<T> | null> {
    return this.hasMore ? new Page(await this.#fetch(this.nextCursor), this.#fetch) : null;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (let page: Page<T> | null = this; page; page = await page.next()) yield* page.data;
  }
}

/** A list: `await` it for its first page, or iterate over all entries with `for await`. */
export class Pager<T> implements PromiseLike<Page<T>>, AsyncIterable<T> {
  readonly #fetch: (cursor: string | null) => Promise<Body<T>>;

  constructor(fetch: (cursor: string | null) => Promise<Body<T>>) {
    this.#fetch = fetch;
  }

  then<A = Page<T>, B = never>(done?: ((page: Page<T>) => A | PromiseLike<A>) | null, failed?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<A | B> {
    return this.#fetch(null)
      .then((body) => new Page(body, this.#fetch))
      .then(done, failed);
  }

  /** All entries, or the first `limit`. */
  async all(limit = Infinity): Promise<T[]> {
    const entries: T[] = [];
    for await (const entry of this) {
      if (entries.length >= limit) break;
      entries.push(entry);
    }
    return entries;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    yield* await this;
  }
}
