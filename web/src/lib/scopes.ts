// Scopes of API keys and OAuth clients, with what they permit.

import type { Schemas } from './api';

export type Scope = Schemas['Scope'];

export const SCOPES: { id: Scope; permits: string; includes?: (scope: Scope) => boolean }[] = [
  { id: 'account_owner', permits: 'Everything, including keys, the team, webhooks and billing', includes: () => true },
  { id: 'read', permits: 'Read everything', includes: (scope) => scope.startsWith('read:') },
  { id: 'write', permits: 'Change sessions, profiles and agents', includes: (scope) => scope.startsWith('write:') },
  { id: 'read:sessions', permits: 'List sessions and watch them' },
  { id: 'write:sessions', permits: 'Create, drive and end sessions' },
  { id: 'read:profiles', permits: 'List profiles and their snapshots' },
  { id: 'write:profiles', permits: 'Change, launch, import and export profiles' },
  { id: 'read:agents', permits: 'Read agents, their messages and recipes' },
  { id: 'write:agents', permits: 'Create and direct agents, use proxies, make recipes' },
  { id: 'read:webhooks', permits: 'Read webhook endpoints and deliveries' },
  { id: 'read:usage', permits: 'Read usage' },
  { id: 'read:audit', permits: 'Read the audit log' },
];

/** The chosen scope that already includes `scope`. */
export function includedBy(scope: Scope, chosen: readonly Scope[]): Scope | null {
  return SCOPES.find(({ id, includes }) => id !== scope && chosen.includes(id) && includes?.(scope))?.id ?? null;
}
