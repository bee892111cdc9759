import type { Page } from '../../lib/api';

/** Pages that are read at most, so that a long list does not load for minutes. */
const PAGES = 10;

export interface Found<T> {
  items: T[];
  /** False if there are more. */
  isComplete: boolean;
}

/** Reads a list of the service up to a bound. */
export async function all<T>(load: (cursor: string | undefined) => Promise<Page<T>>): Promise<Found<T>> {
  const items: T[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES; page += 1) {
    const { data, next_cursor } = await load(cursor);
    items.push(...data);
    if (!next_cursor) return { items, isComplete: true };
    cursor = next_cursor;
  }
  return { items, isComplete: false };
}

/** "3 sessions", or "1,000 or more sessions" when not all are known. */
export function counted({ items, isComplete }: Found<unknown>, one: string, many = `${one}s`): string {
  return `${items.length}${isComplete ? '' : ' or more'} ${items.length === 1 && isComplete ? one : many}`;
}
