import type { Tone } from '../components/Status.svelte';

/** Colour of a status. The word itself says the same. */
const TONES: Record<string, Tone> = {
  ready: 'good',
  active: 'good',
  delivered: 'good',
  done: 'good',
  ok: 'good',
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
};

export const toneOf = (status: string): Tone => TONES[status] ?? 'quiet';
