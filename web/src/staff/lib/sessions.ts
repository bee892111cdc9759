import { api, type Schemas, take } from '../../lib/api';

export type Session = Schemas['CustomerSession'];

const SHOWN = 100;

export interface LiveSessions {
  items: Session[];
  /** False if there are more. */
  isComplete: boolean;
}

/** The newest live sessions of a worker or an account. */
export async function liveSessions(of: { worker_id: string } | { account_id: string }): Promise<LiveSessions> {
  const { data, next_cursor } = await take(api.GET('/v1/admin/sessions', { params: { query: { ...of, limit: SHOWN } } }));
  return { items: data, isComplete: next_cursor === null };
}

/** "3 sessions", or "100 or more sessions" when not all are known. */
export function counted({ items, isComplete }: LiveSessions, one: string): string {
  return `${items.length}${isComplete ? '' : ' or more'} ${items.length === 1 && isComplete ? one : `${one}s`}`;
}
