// Lets lists and pages load again after a change.

type Listener = { prefixes: string[]; notify(): void };

/** Several events within this time cause one reload. */
export const GATHER_MS = 250;

const listeners = new Set<Listener>();

/** Calls `act` some time after events whose name begins with one of `prefixes`. Returns the function that ends it. */
export function changes(prefixes: string[], act: () => void, gatherMs: () => number = () => GATHER_MS): () => void {
  if (prefixes.length === 0) return () => {};
  let timer: ReturnType<typeof setTimeout> | undefined;
  const listener: Listener = {
    prefixes,
    notify: () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        act();
      }, gatherMs());
    },
  };
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    clearTimeout(timer);
  };
}

/** An event without a name concerns all. */
export function notifyAll(event: string): void {
  for (const { prefixes, notify } of listeners) {
    if (event === '' || prefixes.some((prefix) => event.startsWith(prefix))) notify();
  }
}
