// Staff have no stream of events: pages that show the present load again every few seconds, while they are visible.

import { notifyAll } from '../../lib/changes';

const EVERY_MS = 5_000;

/** For `resource` and `pagedList`. */
export const LIVE = ['staff.'];

export function startTicking(): () => void {
  const timer = setInterval(() => {
    if (!document.hidden && navigator.onLine) notifyAll('staff.tick');
  }, EVERY_MS);
  return () => clearInterval(timer);
}

/** After a change by this person. */
export const changed = (): void => notifyAll('staff.changed');
