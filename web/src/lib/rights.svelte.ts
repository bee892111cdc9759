// What the person may do on the account that they work in.

import { session } from './session.svelte';

/** Reason that a control is disabled. */
export const NEEDS_ADMIN = 'Members of a team can only read. An admin or the owner can change this.';

class Rights {
  /** True on the account of a team's owner. */
  readonly isTeam = $derived(session.role !== 'owner');
  /** False for a team member without the role `admin`. */
  readonly mayChange = $derived(session.role === 'owner' || session.role === 'admin');
  /** Reason for which the person may not change the account that is shown, or undefined. */
  readonly refusal = $derived(this.mayChange ? undefined : NEEDS_ADMIN);
}

export const rights = new Rights();
