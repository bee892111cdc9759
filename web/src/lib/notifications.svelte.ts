// The account's notification stream. Lists reload when an event of theirs arrives.

import { Refusal } from './api';
import { notifyAll } from './changes';
import { readEvents } from './events';
import { preferences } from './preferences.svelte';
import { session } from './session.svelte';

export interface Notice {
  id: string;
  event: string;
  data: Record<string, unknown>;
}

const LONGEST_PAUSE_MS = 15_000;
const KEPT = 50;

class Notifications {
  recent = $state.raw<Notice[]>([]);
  unread = $state(0);
  /** False while the stream is interrupted, so that what is shown may be old. */
  isLive = $state(true);
  #running: AbortController | null = null;
  #lastId: string | null = null;

  markRead(): void {
    this.unread = 0;
  }

  start(): void {
    this.stop();
    const running = new AbortController();
    this.#running = running;
    void this.#follow(running.signal);
  }

  stop(): void {
    this.#running?.abort();
    this.#lastId = null;
    [this.recent, this.unread, this.isLive] = [[], 0, true];
  }

  async #follow(signal: AbortSignal): Promise<void> {
    let hasOpened = false;
    for (let failures = 0; !signal.aborted && session.current; ) {
      try {
        await readEvents('/v1/account/notifications/stream', this.#lastId, (event) => {
          failures = 0;
          this.#lastId = event.id || this.#lastId;
          if (event.event === 'reset') notifyAll('');
          else this.#note({ id: event.id, event: event.event, data: JSON.parse(event.data) as Record<string, unknown> });
        }, signal, () => {
          // What happened during the interruption is not known. A stream without the ID of an event begins with the next one.
          if (!this.isLive || (hasOpened && !this.#lastId)) notifyAll('');
          [this.isLive, hasOpened] = [true, true];
        });
      } catch (error) {
        if (signal.aborted) return;
        // The account has no more streams, or may have none.
        if (error instanceof Refusal && (error.status === 403 || error.status === 429)) failures = Math.max(failures, 8);
        this.isLive = false;
        failures += 1;
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_PAUSE_MS, 250 * 2 ** failures)));
    }
  }

  #note(notice: Notice): void {
    if (preferences.wants(notice.event)) {
      this.recent = [notice, ...this.recent].slice(0, KEPT);
      this.unread += 1;
    }
    notifyAll(notice.event);
  }
}

export const notifications = new Notifications();
