// Messages to agent sessions.

import { api, type Schemas, send, take } from './api';
import { uuid } from './ids';

export const APPROVED = 'approved';

const STORED_CLIENT = 'kitfleet.client';

/** The name under which this tab takes over agent sessions. */
export function client(): string {
  const known = sessionStorage.getItem(STORED_CLIENT);
  if (known) return known;
  const made = `dashboard-${uuid()}`;
  sessionStorage.setItem(STORED_CLIENT, made);
  return made;
}

/** Returns when the turn has ended, which can take minutes. */
export function message(agent: string, text: string, approvals: string[] = []): Promise<Schemas['AgentTurn']> {
  const body = { message: text, ...(approvals.length > 0 && { approvals }) };
  const params = { path: { id: agent }, header: { 'Idempotency-Key': uuid() } };
  const isLong = { fetch: (request: Request) => send(request, { stream: true }) };
  return take(api.POST('/v1/agent-sessions/{id}/message', { params, body, ...isLong }));
}

/** Lets the waiting step run. Returns when the turn has ended. */
export const approve = (agent: string, step: string): Promise<Schemas['AgentTurn']> => message(agent, APPROVED, [step]);

/** Ends the plan of the waiting step. */
export function decline(agent: string, step: string): Promise<Schemas['AgentSession']> {
  return take(api.POST('/v1/agent-sessions/{id}/steps/{step_id}/decline', { params: { path: { id: agent, step_id: step } } }));
}
