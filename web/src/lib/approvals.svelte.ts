// Steps of agents that wait for the person.

import { api, type Schemas, take } from './api';
import { changes } from './changes';
import { session } from './session.svelte';

export type Approval = Schemas['WaitingApproval'];

/** Events after which other steps may wait. */
export const EVENTS = ['agent_turn.', 'agent_session.'];

export const listApprovals = (cursor: string | undefined, limit = 50): Promise<Schemas['WaitingApprovalList']> =>
  take(api.GET('/v1/account/approvals', { params: { query: { limit, ...(cursor && { cursor }) } } }));

/** The number in the navigation. */
class Approvals {
  count = $state(0);
  hasMore = $state(false);

  /** Counts until the returned function is called. */
  follow(): () => void {
    void this.reload();
    return changes(EVENTS, () => void this.reload());
  }

  async reload(): Promise<void> {
    // The person is not known yet, or a member of a team, who may not see them.
    if (!session.current || session.role === 'member') return;
    try {
      const page = await listApprovals(undefined, 100);
      [this.count, this.hasMore] = [page.data.length, page.next_cursor !== null];
    } catch {
      // A badge has no place for an error; the page shows it.
      [this.count, this.hasMore] = [0, false];
    }
  }

  readonly badge = $derived(this.count === 0 ? '' : `${this.count}${this.hasMore ? '+' : ''}`);
}

export const approvals = new Approvals();
