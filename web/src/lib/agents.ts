// Messages to agent sessions.

import { api, type Schemas, send, take } from './api';

/** Has no effect on the page. A message that leads to another plan drops the steps that wait (contract: agents 20). */
export const NO_EFFECT = 'wait 1 ms';
export const APPROVED = 'approved';

const STORED_CLIENT = 'kitfleet.client';

/** The name under which this tab takes over agent sessions. */
export function client(): string {
  const known = sessionStorage.getItem(STORED_CLIENT);
  if (known) return known;
  const made = `dashboard-${crypto.randomUUID()}`;
  sessionStorage.setItem(STORED_CLIENT, made);
  return made;
}

/** Returns when the turn has ended, which can take minutes. */
export function message(agent: string, text: string, approvals: string[] = []): Promise<Schemas['AgentTurn']> {
  const body = { message: text, ...(approvals.length > 0 && { approvals }) };
  const params = { path: { id: agent }, header: { 'Idempotency-Key': crypto.randomUUID() } };
  const isLong = { fetch: (request: Request) => send(request, { stream: true }) };
  return take(api.POST('/v1/agent-sessions/{id}/message', { params, body, ...isLong }));
}

/** Lets the waiting step run, or ends its plan. */
export function answerStep(agent: string, step: string, isApproved: boolean): Promise<Schemas['AgentTurn']> {
  return isApproved ? message(agent, APPROVED, [step]) : message(agent, NO_EFFECT);
}
