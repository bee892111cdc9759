// The code of a device that waits while its person signs in by a link in a mail, which opens in another tab.

const PENDING = 'kitfleet.pending';
/** A device does not wait for longer. */
const GOOD_FOR_MS = 10 * 60_000;

export function remember(code) {
  localStorage.setItem(PENDING, JSON.stringify({ code, at: Date.now() }));
}

export function forget() {
  localStorage.removeItem(PENDING);
}

export function recall() {
  const pending = JSON.parse(localStorage.getItem(PENDING));
  return pending && Date.now() - pending.at < GOOD_FOR_MS ? pending.code : null;
}
