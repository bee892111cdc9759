import type { Schemas } from '../../lib/api';
import type { Tone } from '../../components/Status.svelte';

type Worker = Schemas['WorkerRow'];

/** A worker's lease ends 10 s after its last heartbeat. The rest is for the age of what is shown, and for clocks that differ. */
const SILENT_MS = 20_000;

export const isLive = ({ status }: Worker): boolean => status === 'active' || status === 'draining';

export const isSilent = (worker: Worker, now: number): boolean => now - Date.parse(worker.last_seen_at) > SILENT_MS;

export function workerTone(worker: Worker, now: number): Tone {
  if (worker.status === 'lost' || (isLive(worker) && isSilent(worker, now))) return 'bad';
  if (worker.status === 'draining') return 'warn';
  return worker.status === 'active' ? 'good' : 'quiet';
}

export const freeSlots = (workers: Worker[]): number =>
  workers.filter(({ status }) => status === 'active').reduce((sum, { live_sessions, max_sessions }) => sum + Math.max(0, max_sessions - live_sessions), 0);
