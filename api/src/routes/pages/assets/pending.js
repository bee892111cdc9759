// Remembers the page to return to while a person signs in with a mailed link, which opens in another tab.

const PENDING = 'kitfleet.pending';
/** A device waits no longer than this, and a later visit probably has another purpose. */
const GOOD_FOR_MS = 10 * 60_000;

/** Stores the page to return to and the label of the link to it. */
export function remember(address, label) {
  localStorage.setItem(PENDING, JSON.stringify({ address, label, at: Date.now() }));
}

export function forget() {
  localStorage.removeItem(PENDING);
}

/** Points a link at the stored page, if there is one. */
export function lead(link) {
  const pending = JSON.parse(localStorage.getItem(PENDING));
  if (!pending?.address || Date.now() - pending.at > GOOD_FOR_MS) return;
  link.href = pending.address;
  link.textContent = pending.label;
}
