// The page to return to after a sign-in, which can continue in another tab (a mailed link) or leave this service for a moment.

const STORED = 'kitfleet.pending';
/** A device waits no longer than this, and a later visit probably has another purpose. */
const GOOD_FOR_MS = 10 * 60_000;

export interface Destination {
  address: string;
  /** Label of the link to it. */
  label: string;
}

export function remember(address: string, label: string): void {
  localStorage.setItem(STORED, JSON.stringify({ address, label, at: Date.now() }));
}

export function forget(): void {
  localStorage.removeItem(STORED);
}

/** The stored page, or else the dashboard. */
export function destination(): Destination {
  const stored = JSON.parse(localStorage.getItem(STORED) ?? 'null') as (Destination & { at: number }) | null;
  if (stored?.address.startsWith('/') && Date.now() - stored.at < GOOD_FOR_MS) return stored;
  return { address: '/app/', label: 'Open the dashboard' };
}
