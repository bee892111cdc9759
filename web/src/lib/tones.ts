import type { Tone } from '../components/Status.svelte';

/** Colour of a status. The word itself says the same. */
const TONES: Record<string, Tone> = {
  ready: 'good',
  active: 'good',
  delivered: 'good',
  done: 'good',
  ok: 'good',
  paid: 'good',
  trialing: 'good',
  busy: 'accent',
  creating: 'accent',
  running: 'accent',
  pending: 'accent',
  in_flight: 'accent',
  errored: 'bad',
  failed: 'bad',
  dead: 'bad',
  dlq: 'bad',
  timeout: 'bad',
  unknown: 'bad',
  withheld: 'warn',
  needs_approval: 'warn',
  paused: 'warn',
  invalid: 'warn',
  disabled: 'warn',
  expiring: 'warn',
  past_due: 'warn',
  unpaid: 'bad',
  quota_exceeded: 'warn',
};

export const toneOf = (status: string): Tone => TONES[status] ?? 'quiet';
