// The conversation with an agent.

import { api, type Schemas, take } from './api';

type Entry = Schemas['AgentTranscriptEntry'];

export class Transcript {
  entries = $state.raw<Entry[]>([]);
  loaded = $state(false);
  error = $state.raw<Error | null>(null);
  #agent: string;
  /** What the pages before the last one have, and where the last one begins. */
  #earlier: Entry[] = [];
  #cursor: string | undefined;
  #generation = 0;

  constructor(agent: string) {
    this.#agent = agent;
  }

  /** Loads the last page again, and those after it. */
  async reload(): Promise<void> {
    const generation = (this.#generation += 1);
    let [earlier, cursor] = [this.#earlier, this.#cursor];
    try {
      for (;;) {
        const query = { limit: 100, ...(cursor && { cursor }) };
        const page = await take(api.GET('/v1/agent-sessions/{id}/transcript', { params: { path: { id: this.#agent }, query } }));
        if (generation !== this.#generation) return;
        [this.#earlier, this.#cursor] = [earlier, cursor];
        this.entries = [...earlier, ...page.data];
        if (!page.next_cursor) break;
        [earlier, cursor] = [this.entries, page.next_cursor];
      }
      [this.loaded, this.error] = [true, null];
    } catch (error) {
      if (generation === this.#generation) this.error = error instanceof Error ? error : new Error(String(error));
    }
  }
}
