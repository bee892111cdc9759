import type { Schemas } from '../../lib/api';
import type { Tone } from '../../components/Status.svelte';

export type Worker = Schemas['WorkerRow'];

/** A worker's lease ends so long after its last heartbeat, by the clock of the database. */
export const LEASE_SECONDS = 10;

export const isLive = ({ status }: Worker): boolean => status === 'active' || status === 'draining';

/** Its lease has expired, but it was not declared lost yet. */
export const isSilent = (worker: Worker): boolean => isLive(worker) && worker.lease_age_seconds > LEASE_SECONDS;

export function workerTone(worker: Worker): Tone {
  if (worker.status === 'lost' || isSilent(worker)) return 'bad';
  if (worker.status === 'draining') return 'warn';
  return worker.status === 'active' ? 'good' : 'quiet';
}

export const load = (worker: Worker): string => (worker.processor_load === null ? 'not reported' : `${Math.round(worker.processor_load * 100)} %`);
