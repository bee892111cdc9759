// The account's notification stream. Lists reload when an event of theirs arrives. One tab of the browser reads it for all tabs of the
// account: without HTTP/2, all tabs share six connections.

import { Refusal } from './api';
import { notifyAll } from './changes';
import { readEvents, type StreamEvent } from './events';
import { preferences } from './preferences.svelte';
import { session } from './session.svelte';
import { untilHidden, untilShown } from './visibility';

export interface Notice {
  id: string;
  event: string;
  data: Record<string, unknown>;
}

const LONGEST_PAUSE_MS = 15_000;
const KEPT = 50;
const QUESTION_MS = 1_000;

/** From the tab that reads the stream to the others. */
type Message = { event: StreamEvent } | { isLive: boolean };

class Notifications {
  recent = $state.raw<Notice[]>([]);
  unread = $state(0);
  /** False while the stream is interrupted, so that what is shown may be old. */
  isLive = $state(true);
  #running: AbortController | null = null;
  #lastId: string | null = null;
  /** Names of events that arrived while the tab was hidden. */
  #deferred = new Set<string>();

  markRead(): void {
    this.unread = 0;
  }

  start(): void {
    this.stop();
    const running = new AbortController();
    this.#running = running;
    void this.#follow(running.signal).catch(() => {});
  }

  stop(): void {
    this.#running?.abort();
    this.#lastId = null;
    this.#deferred.clear();
    [this.recent, this.unread, this.isLive] = [[], 0, true];
  }

  /** Reads the stream, or waits until the tab that reads it is hidden or closed. A hidden tab does neither. */
  async #follow(signal: AbortSignal): Promise<void> {
    const name = `kitfleet.notifications.${session.current?.account_id}.${session.account ?? ''}`;
    const channel = new BroadcastChannel(name);
    channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if ('event' in data) this.#receive(data.event);
      else this.isLive = data.isLive;
    };
    signal.addEventListener('abort', () => channel.close());
    // Locks need a secure context.
    const isShared = 'locks' in navigator;
    let hasMissed = false;
    while (!signal.aborted && session.current) {
      await untilShown(signal);
      for (const event of this.#deferred) notifyAll(event);
      this.#deferred.clear();
      const hidden = untilHidden();
      const stopped = AbortSignal.any([signal, hidden.signal]);
      const read = () => this.#read(stopped, hasMissed, (message) => void (isShared && !signal.aborted && channel.postMessage(message)));
      try {
        if (!isShared) await read();
        else if (!(await navigator.locks.request(name, { ifAvailable: true }, async (lock) => { if (lock) await read(); return lock !== null; }))) {
          hasMissed = true;
          await navigator.locks.request(name, { signal: stopped }, read);
        }
      } catch (error) {
        if (!stopped.aborted) throw error;
      } finally {
        hidden.release();
      }
      hasMissed = true;
      while (session.question && !signal.aborted) await pause(QUESTION_MS, signal);
    }
  }

  /** Reads until `stopped`, or until the person must sign in again: another tab may still be signed in. */
  async #read(stopped: AbortSignal, hasMissed: boolean, tell: (message: Message) => void): Promise<void> {
    const asked = new AbortController();
    const signal = AbortSignal.any([stopped, asked.signal]);
    const timer = setInterval(() => { if (session.question) asked.abort(); }, QUESTION_MS);
    const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    // A request that waits for the person cannot be aborted.
    await Promise.race([ended, this.#stream(signal, hasMissed, tell)]).finally(() => clearInterval(timer));
  }

  async #stream(signal: AbortSignal, hasMissed: boolean, tell: (message: Message) => void): Promise<void> {
    const setLive = (isLive: boolean) => {
      this.isLive = isLive;
      tell({ isLive });
    };
    for (let failures = 0; !signal.aborted && session.current; ) {
      try {
        await readEvents('/v1/account/notifications/stream', this.#lastId, (event) => {
          failures = 0;
          this.#receive(event);
          tell({ event });
        }, signal, () => {
          // What happened during the interruption is not known. A stream without the ID of an event begins with the next one.
          if (!this.isLive || (hasMissed && !this.#lastId)) notifyAll('');
          setLive(true);
          hasMissed = true;
        });
      } catch (error) {
        if (signal.aborted) return;
        // The account has no more streams, or may have none.
        if (error instanceof Refusal && (error.status === 403 || error.status === 429)) failures = Math.max(failures, 8);
        setLive(false);
        failures += 1;
      }
      await pause(Math.min(LONGEST_PAUSE_MS, 250 * 2 ** failures), signal);
    }
  }

  #receive({ id, event, data }: StreamEvent): void {
    this.#lastId = id || this.#lastId;
    // Another tab that begins to read may begin earlier.
    if (id && this.recent.some((notice) => notice.id === id)) return;
    if (event === 'reset') this.#announce('');
    else this.#note({ id, event, data: JSON.parse(data) as Record<string, unknown> });
  }

  #note(notice: Notice): void {
    if (preferences.wants(notice.event)) {
      this.recent = [notice, ...this.recent].slice(0, KEPT);
      this.unread += 1;
    }
    this.#announce(notice.event);
  }

  /** Lists of a hidden tab load again when it is shown. */
  #announce(event: string): void {
    if (document.hidden) this.#deferred.add(event);
    else notifyAll(event);
  }
}

/** Resolves after a time, or when `signal` is aborted. */
function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

export const notifications = new Notifications();
