// Where a live view gets its tickets. A ticket opens one connection.

import { api, openApi, Refusal, take } from './api';

/** Ends a live view. The message says why. */
export class ViewEnded extends Error {}

/** Returns the ticket of the next connection, and throws {@link ViewEnded} if there will be none. */
export type Tickets = () => Promise<string>;

/** Tickets of the signed-in person. `client` is the name under which they take over an agent session. */
export function ownTickets(session: string, role: 'viewer' | 'controller', client?: string): Tickets {
  const body = { role, ...(client && { client_id: client }) };
  return async () => {
    try {
      return (await take(api.POST('/v1/sessions/{id}/live-tickets', { params: { path: { id: session } }, body }))).ticket;
    } catch (error) {
      if (!isFinal(error)) throw error;
      throw new ViewEnded(error.status === 410 || error.status === 409 ? 'The session is not live.' : error.message);
    }
  };
}

/** Tickets of a link, which needs no account. */
export function linkTickets(session: string, link: string): Tickets {
  return async () => {
    const followed = await take(openApi.POST('/v1/live-links/follow', { body: { link } })).catch((error: unknown) => {
      throw isFinal(error) ? new ViewEnded('This link is not valid any more.') : error;
    });
    if (!followed.url.endsWith(`/v1/sessions/${session}/live`)) throw new ViewEnded('This address is invalid.');
    return followed.ticket;
  };
}

/** A ticket that the page was opened with. */
export function singleTicket(ticket: string): Tickets {
  let isUsed = false;
  return () => {
    if (isUsed) return Promise.reject(new ViewEnded('The connection was lost, and the ticket works only once. Request another ticket to continue.'));
    isUsed = true;
    return Promise.resolve(ticket);
  };
}

function isFinal(error: unknown): error is Refusal {
  return error instanceof Refusal && error.status >= 400 && error.status < 500 && error.status !== 429;
}
