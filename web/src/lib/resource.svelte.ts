// Data of the service with its states: loading, loaded, failed. A page that has data keeps it while it loads again.

import { onDestroy, untrack } from 'svelte';
import type { Page } from './api';
import { changes, GATHER_MS } from './changes';

export class Resource<T> {
  data = $state.raw<T | null>(null);
  error = $state.raw<Error | null>(null);
  loading = $state(false);
  #load: (signal: AbortSignal) => Promise<T>;
  #running: AbortController | null = null;

  constructor(load: (signal: AbortSignal) => Promise<T>) {
    this.#load = load;
  }

  /** A later call replaces an earlier one that still runs. */
  async reload(): Promise<void> {
    this.#running?.abort();
    const running = new AbortController();
    this.#running = running;
    this.loading = true;
    try {
      const data = await this.#load(running.signal);
      if (running.signal.aborted) return;
      [this.data, this.error] = [data, null];
    } catch (error) {
      if (running.signal.aborted) return;
      this.error = error instanceof Error ? error : new Error(String(error));
    } finally {
      if (this.#running === running) this.loading = false;
    }
  }

  stop(): void {
    this.#running?.abort();
  }
}

/**
 * Loads when the component is shown and when what `load` reads changes, and again after each event of the given kinds
 * ("session." matches all events of sessions).
 */
export function resource<T>(load: (signal: AbortSignal) => Promise<T>, events: string[] = []): Resource<T> {
  const made = new Resource(load);
  $effect(() => void made.reload());
  onDestroy(changes(events, () => void made.reload()));
  onDestroy(() => made.stop());
  return made;
}

/** A list of which more can be loaded. */
export class PagedList<T> {
  items = $state.raw<T[]>([]);
  next = $state.raw<string | null>(null);
  loaded = $state(false);
  loading = $state(false);
  error = $state.raw<Error | null>(null);
  #load: (cursor: string | undefined) => Promise<Page<T>>;
  #generation = 0;

  constructor(load: (cursor: string | undefined) => Promise<Page<T>>) {
    this.#load = load;
  }

  /** Loads as many items again as are shown. */
  async reload(): Promise<void> {
    const generation = (this.#generation += 1);
    // An effect that loads must not run again because of what it has loaded.
    const wanted = untrack(() => Math.max(this.items.length, 1));
    const items: T[] = [];
    let cursor: string | null = null;
    this.loading = true;
    try {
      do {
        const page: Page<T> = await this.#load(cursor ?? undefined);
        items.push(...page.data);
        cursor = page.next_cursor;
      } while (cursor && items.length < wanted);
      if (generation !== this.#generation) return;
      [this.items, this.next, this.loaded, this.error] = [items, cursor, true, null];
    } catch (error) {
      if (generation === this.#generation) this.error = error instanceof Error ? error : new Error(String(error));
    } finally {
      if (generation === this.#generation) this.loading = false;
    }
  }

  async more(): Promise<void> {
    if (!this.next || this.loading) return;
    const generation = this.#generation;
    this.loading = true;
    try {
      const page = await this.#load(this.next);
      if (generation === this.#generation) [this.items, this.next] = [[...this.items, ...page.data], page.next_cursor];
    } catch (error) {
      this.error = error instanceof Error ? error : new Error(String(error));
    } finally {
      this.loading = false;
    }
  }
}

/** A long list takes many requests to load again, so it waits longer for further events. */
const GATHER_MS_PER_ROW = 5;

export function pagedList<T>(load: (cursor: string | undefined) => Promise<Page<T>>, events: string[] = []): PagedList<T> {
  const made = new PagedList(load);
  $effect(() => void made.reload());
  onDestroy(changes(events, () => void made.reload(), () => GATHER_MS + made.items.length * GATHER_MS_PER_ROW));
  return made;
}

/** Runs an action of a button or a form. Keeps its error until the next one. */
export class Action {
  running = $state(false);
  error = $state.raw<Error | null>(null);

  async run<T>(act: () => Promise<T>): Promise<T | undefined> {
    if (this.running) return undefined;
    [this.running, this.error] = [true, null];
    try {
      return await act();
    } catch (error) {
      this.error = error instanceof Error ? error : new Error(String(error));
      return undefined;
    } finally {
      this.running = false;
    }
  }
}
