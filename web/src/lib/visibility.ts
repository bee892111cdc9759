// Whether the tab is shown. A page that the browser keeps after the person has left it (for its Back button) counts as hidden.

/** Resolves when the tab is shown. Rejects when `stopped` is aborted before that. */
export function untilShown(stopped: AbortSignal): Promise<void> {
  stopped.throwIfAborted();
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const done = new AbortController();
    const check = () => {
      if (document.hidden) return;
      done.abort();
      resolve();
    };
    for (const event of ['visibilitychange', 'pageshow']) addEventListener(event, check, { signal: done.signal });
    stopped.addEventListener('abort', () => { done.abort(); reject(stopped.reason as Error); }, { signal: done.signal });
  });
}

/** A signal that is aborted when the tab is hidden or left. */
export function untilHidden(): { signal: AbortSignal; release(): void } {
  const hidden = new AbortController();
  const released = new AbortController();
  addEventListener('visibilitychange', () => { if (document.hidden) hidden.abort(); }, { signal: released.signal });
  addEventListener('pagehide', () => hidden.abort(), { signal: released.signal });
  return { signal: hidden.signal, release: () => released.abort() };
}
