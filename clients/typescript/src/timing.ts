import { DeadlineExceededError } from "./errors.js";

export const sleep = (milliseconds: number, signal?: AbortSignal | null): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const aborted = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", aborted, { once: true });
  });

/** Milliseconds before the next attempt, with jitter. */
export const backoff = (attempt: number): number => Math.min(8000, 250 * 2 ** attempt) * (0.5 + Math.random() / 2);

/** Fails when `promise` takes longer than `milliseconds`, and closes the connection. */
export async function idle<T>(promise: Promise<T>, milliseconds: number, controller: AbortController): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    return await Promise.race([
      promise,
      new Promise<never>((_, reject) => {
        timer = setTimeout(() => {
          reject(new DeadlineExceededError(`No data for ${milliseconds} ms`));
          controller.abort();
        }, milliseconds);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}
