// Messages to agent sessions.

import type { Schemas } from './api';
import { ask } from './requests';

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
  const headers = { 'Idempotency-Key': crypto.randomUUID() };
  return ask('POST', `/v1/agent-sessions/${agent}/message`, { body, headers, isLong: true });
}

/** Lets the waiting step run, or ends its plan. */
export function answerStep(agent: string, step: string, isApproved: boolean): Promise<Schemas['AgentTurn']> {
  return isApproved ? message(agent, APPROVED, [step]) : message(agent, NO_EFFECT);
}
