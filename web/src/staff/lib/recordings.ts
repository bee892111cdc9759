// Recordings of customers' sessions.

import { refusal, send } from '../../lib/api';
import { save } from '../../lib/files';

/** Saves the trace of a session on the person's device. The customer sees the read with its reason. */
export async function saveTrace(session: string, reason: string): Promise<void> {
  const request = new Request(new URL(`/v1/admin/sessions/${session}/trace`, location.origin), {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ reason }),
  });
  // A trace may be large and slow, so that no timeout applies.
  const response = await send(request, { stream: true });
  if (!response.ok) throw refusal(response, await response.json().catch(() => ({})));
  save(await response.blob(), `${session}.zip`);
}
