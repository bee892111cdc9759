// What a person came for, while they sign in by a link in a mail, which opens in another tab.

const PENDING = 'kitfleet.pending';
/** A device does not wait for longer, and a person who has not come back by then wants something else. */
const GOOD_FOR_MS = 10 * 60_000;

/** Keeps the page that the person is to be led back to, and what it is called there. */
export function remember(address, label) {
  localStorage.setItem(PENDING, JSON.stringify({ address, label, at: Date.now() }));
}

export function forget() {
  localStorage.removeItem(PENDING);
}

/** Has a link lead back to that page, if there is one. */
export function lead(link) {
  const pending = JSON.parse(localStorage.getItem(PENDING));
  if (!pending?.address || Date.now() - pending.at > GOOD_FOR_MS) return;
  link.href = pending.address;
  link.textContent = pending.label;
}
