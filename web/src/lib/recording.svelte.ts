// The recording of a session: its events, which arrive one by one while it lives, and its pictures.

import { Refusal, takeBlob } from './api';
import { readEvents } from './events';

export interface Actor {
  type: string;
  id: string | null;
}

/** An operation, of the list of operations or of a recording. */
export interface Step {
  id: string;
  kind: string;
  action: string;
  description: string;
  outcome: string;
  error: string | null;
  url: string | null;
  actor: Actor | null;
  started_at: string | null;
  ended_at: string | null;
  duration_ms: number | null;
  has_frames: boolean;
}

export interface RecordedRequest {
  seq: number;
  /** Time the request ended. */
  at: string;
  method: string;
  url: string;
  resource_type: string;
  status: number | null;
  mime_type: string | null;
  response_bytes: number | null;
  duration_ms: number | null;
  error: string | null;
}

export interface ConsoleLine {
  seq: number;
  at: string;
  level: string;
  source: string;
  text: string;
  url: string | null;
  line: number | null;
}

export interface Frame {
  seq: number;
  operation_id: string | null;
  width: number;
  height: number;
}

/** Other events: dialogs, pages, downloads, control, challenges and changes of the recording. */
export interface Happening {
  seq: number;
  at: string;
  type: string;
  members: Record<string, unknown>;
}

export type Entry = { seq: number; at: string } & ({ kind: 'step'; step: Step } | { kind: 'console'; line: ConsoleLine } | { kind: 'happening'; happening: Happening });

const GATHER_MS = 200;
const LONGEST_PAUSE_MS = 10_000;
/** Pictures whose bytes are kept. */
const KEPT_PICTURES = 200;

export class Recording {
  entries = $state.raw<Entry[]>([]);
  requests = $state.raw<RecordedRequest[]>([]);
  lines = $state.raw<ConsoleLine[]>([]);
  frames = $state.raw<Frame[]>([]);
  isLoaded = $state(false);
  /** True when no further event comes. */
  isComplete = $state(false);
  error = $state.raw<Error | null>(null);
  #session: string;
  #stopped = new AbortController();
  #gathered: { type: string; event: Record<string, unknown> }[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pictures = new Map<number, Promise<string>>();

  constructor(session: string) {
    this.#session = session;
  }

  start(): () => void {
    void this.#follow();
    return () => {
      this.#stopped.abort();
      clearTimeout(this.#timer);
      for (const picture of this.#pictures.values()) void picture.then((address) => URL.revokeObjectURL(address), () => {});
      this.#pictures.clear();
    };
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stopped;
    let last: string | null = null;
    for (let failures = 0; !signal.aborted && !this.isComplete; ) {
      try {
        await readEvents(`/v1/sessions/${this.#session}/timeline`, last, ({ id, event, data }) => {
          failures = 0;
          if (event === 'end') {
            this.#flush();
            this.isComplete = true;
            return;
          }
          last = id || last;
          this.#gathered.push({ type: event, event: JSON.parse(data) as Record<string, unknown> });
          this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS);
        }, signal, () => {
          this.error = null;
          // Without any event the recording is empty.
          this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS * 5);
        });
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refusal && error.status >= 400 && error.status < 500 && error.status !== 429) {
          [this.error, this.isLoaded, this.isComplete] = [error, true, true];
          return;
        }
        if (failures > 2) this.error = error as Error;
        failures += 1;
      }
      if (!this.isComplete) await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_PAUSE_MS, 500 * 2 ** failures)));
    }
  }

  /** Many events change the lists once. */
  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.isLoaded = true;
    const gathered = this.#gathered;
    this.#gathered = [];
    if (gathered.length === 0) return;
    const [entries, requests, lines, frames] = [[...this.entries], [...this.requests], [...this.lines], [...this.frames]];
    for (const { type, event } of gathered) {
      const { seq, at } = event as { seq: number; at: string };
      if (type === 'request') requests.push(event as unknown as RecordedRequest);
      else if (type === 'frame') frames.push(event as unknown as Frame);
      else if (type === 'operation') entries.push({ seq, at, kind: 'step', step: stepOf(event) });
      else if (type === 'console') {
        const line = event as unknown as ConsoleLine;
        lines.push(line);
        if (line.level === 'error' || line.level === 'warning') entries.push({ seq, at, kind: 'console', line });
      } else entries.push({ seq, at, kind: 'happening', happening: { seq, at, type, members: event } });
    }
    [this.entries, this.requests, this.lines, this.frames] = [entries, requests, lines, frames];
  }

  /** Address of a picture for an `img` element. */
  picture(seq: number): Promise<string> {
    const known = this.#pictures.get(seq);
    if (known) return known;
    const made = takeBlob(`/v1/sessions/${this.#session}/frames/${seq}`, this.#stopped.signal).then((blob) => URL.createObjectURL(blob));
    this.#pictures.set(seq, made);
    made.catch(() => this.#pictures.delete(seq));
    if (this.#pictures.size > KEPT_PICTURES) {
      const [oldest, address] = [...this.#pictures][0] ?? [];
      if (oldest !== undefined) this.#pictures.delete(oldest);
      void address?.then((text) => URL.revokeObjectURL(text), () => {});
    }
    return made;
  }

  /** The pictures before and after a step: the last one before its own, and its own. */
  around(step: Step, seq: number): { before: Frame | null; after: Frame | null } {
    const after = this.frames.findLast(({ operation_id }) => operation_id === step.id) ?? null;
    const limit = this.frames.find(({ operation_id }) => operation_id === step.id)?.seq ?? seq;
    return { before: this.frames.findLast((frame) => frame.seq < limit) ?? null, after };
  }

  /** Requests that ended between the start of a step and the start of the next one. */
  requestsOf(step: Step): RecordedRequest[] {
    const starts = this.entries.flatMap((entry) => (entry.kind === 'step' && entry.step.started_at ? [Date.parse(entry.step.started_at)] : []));
    const from = Date.parse(step.started_at ?? '');
    const until = Math.min(...starts.filter((start) => start > from));
    return this.requests.filter(({ at }) => Date.parse(at) >= from && Date.parse(at) < until);
  }
}

function stepOf(event: Record<string, unknown>): Step {
  return { ...(event as unknown as Step), id: String(event.operation_id) };
}
