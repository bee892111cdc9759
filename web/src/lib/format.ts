// Times, numbers and names as people read them, in their own language's notation.

const NUMBER = new Intl.NumberFormat();
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });

export const number = (value: number): string => NUMBER.format(value);
export const localTime = (value: string): string => TIME.format(new Date(value));
/** A day in UTC. */
export const day = (value: string): string => DAY.format(new Date(value));
export const clock = (value: string): string => CLOCK.format(new Date(value));

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [['day', 86_400], ['hour', 3_600], ['minute', 60]];

/** The shown present is up to 5 s late, and clocks differ: an event that has just happened is not in the future. */
const LATE_S = 15;

export function ago(value: string, now: number): string {
  const difference = (new Date(value).getTime() - now) / 1000;
  const seconds = difference > 0 && difference < LATE_S ? 0 : difference;
  const unit = UNITS.find(([, length]) => Math.abs(seconds) >= length);
  return unit ? RELATIVE.format(Math.trunc(seconds / unit[1]), unit[0]) : RELATIVE.format(Math.trunc(seconds), 'second');
}

export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  const seconds = Math.round(milliseconds / 1_000);
  if (seconds < 60) return `${(milliseconds / 1_000).toFixed(1)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  const power = value > 0 ? Math.min(Math.floor(Math.log2(value) / 10), units.length - 1) : 0;
  const scaled = value / 1024 ** power;
  return `${power > 0 && scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)} ${units[power] ?? ''}`;
}

export function money(cents: number, currency: string): string {
  return new Intl.NumberFormat(undefined, { style: 'currency', currency }).format(cents / 100);
}

/** `account_owner` as "account owner". */
export const words = (name: string): string => name.replace(/[_.-]/g, ' ');

/** `api_starter` as "API Starter". */
export const tierName = (tier: string): string => words(tier).replace(/\b[a-z]/g, (letter) => letter.toUpperCase()).replace(/\bApi\b/, 'API');

/** Without control characters and marks that change the direction of text, so that a page cannot disguise what it says. */
export const plain = (text: string): string => text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, ' ');

/** As {@link plain}, with line breaks. */
export const plainLines = (text: string): string => text.split('\n').map(plain).join('\n');

/** As {@link plain}, for a value of several lines. */
export const plainJson = (value: unknown): string => plainLines(JSON.stringify(value, null, 2));
