// Notifications as sentences, with the page that shows more.

import { words } from './format';

const TITLES: Record<string, string> = {
  'session.created': 'A session was created',
  'session.ready': 'A session is ready',
  'session.completed': 'A session has ended',
  'session.failed': 'A session has failed',
  'agent_session.changed': 'An agent has changed',
  'agent_turn.completed': 'An agent has finished a turn',
  'webhook_endpoint.disabled': 'A webhook endpoint was disabled after too many failures',
  'recording.stopped': 'A recording keeps no more pictures',
  'recording.kept': 'A recording is complete',
  'profile.saved': 'A profile was saved',
  'api_key.revoked': 'An API key was revoked',
  'api_key.rotated': 'An API key was rotated',
};

export function titleOf(event: string): string {
  const title = words(event);
  return TITLES[event] ?? title.charAt(0).toUpperCase() + title.slice(1);
}

const PAGES: [member: string, path: (id: string) => string][] = [
  ['agent_session_id', (id) => `/agents/${id}`],
  ['session_id', (id) => `/sessions/${id}`],
  ['profile_id', () => '/profiles'],
  ['endpoint_id', () => '/webhooks'],
  ['api_key_id', () => '/keys'],
];

/** Path of the page about what a notification names. */
export function pageOf(data: Record<string, unknown>): string | null {
  for (const [member, path] of PAGES) {
    const id = data[member];
    if (typeof id === 'string' && id) return path(encodeURIComponent(id));
  }
  return null;
}
