// Staff have no stream of events: pages load the present state again every two seconds while they are visible.

import { onDestroy } from 'svelte';
import { type Page, Refusal } from '../../lib/api';
import { changes, notifyAll } from '../../lib/changes';
import { type PagedList, pagedList, type Resource, resource } from '../../lib/resource.svelte';

const EVERY_MS = 2_000;
/** A list of more items takes many requests, so it loads again at every tenth tick only. */
const LONG_LIST = 300;
/** A request that takes more ticks is replaced by another one. */
const MOST_TICKS = 5;

/** Without an answer for so long, the figures may be old. */
const OLD_MS = 6_000;

/** Time of the last answer of the service, and true while it does not answer. */
class Freshness {
  at = $state(Date.now());
  isOld = $state(false);

  answered(): void {
    [this.at, this.isOld] = [Date.now(), false];
  }

  missed(): void {
    this.isOld = Date.now() - this.at > OLD_MS;
  }
}

export const freshness = new Freshness();

export function startTicking(): () => void {
  const timer = setInterval(() => {
    if (!document.hidden && navigator.onLine) notifyAll('staff.tick');
  }, EVERY_MS);
  return () => clearInterval(timer);
}

/** After a change by this person. */
export const changed = (): void => notifyAll('staff.changed');

async function noted<T>(loaded: Promise<T>): Promise<T> {
  try {
    const data = await loaded;
    freshness.answered();
    return data;
  } catch (error) {
    if (error instanceof Refusal && error.status > 0 && error.status < 500) freshness.answered();
    else freshness.missed();
    throw error;
  }
}

/** At every `every`th tick, unless an earlier request is still under way. */
function onTick(isLoading: () => boolean, act: () => void, every: () => number): void {
  let [passed, loading] = [0, 0];
  onDestroy(changes(['staff.tick'], () => {
    passed += 1;
    loading = isLoading() ? loading + 1 : 0;
    if (loading > 0) freshness.missed();
    if (loading > MOST_TICKS) {
      loading = 0;
      act();
    } else if (loading === 0 && passed % every() === 0) act();
  }));
}

/** A resource that stays right while it is shown. */
export function live<T>(load: (signal: AbortSignal) => Promise<T>, every = 1): Resource<T> {
  const made = resource((signal) => noted(load(signal)), ['staff.changed']);
  onTick(() => made.loading, () => void made.reload(), () => every);
  return made;
}

/** A list that stays right while it is shown. */
export function liveList<T>(load: (cursor: string | undefined) => Promise<Page<T>>): PagedList<T> {
  const made = pagedList((cursor) => noted(load(cursor)), ['staff.changed']);
  onTick(() => made.loading, () => void made.reload(), () => (made.items.length > LONG_LIST ? 10 : 1));
  return made;
}
