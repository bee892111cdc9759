// What the person may do on the account that they work in.

import { session } from './session.svelte';

class Rights {
  /** False for a team member without the role `admin`. */
  readonly mayChange = $derived.by(() => {
    if (!session.account || session.account === session.me?.id) return true;
    return session.me?.teams.some((team) => team.owner_account_id === session.account && team.role === 'admin') ?? false;
  });

  /** True on the account of a team's owner. */
  readonly isTeam = $derived(session.account !== null && session.account !== session.me?.id);
}

export const rights = new Rights();

/** Reason that a control is disabled. */
export const NEEDS_ADMIN = 'Only admins of the team can change this.';
