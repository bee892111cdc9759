// Generated from openapi.json by clients/generate/generate.py. Do not edit.

import type { Content } from "../content.js";
import { type Core, segment as e } from "../core.js";
import type { Pager } from "../pager.js";
import type { RequestOptions } from "../request.js";
import type { AgentSession, Session } from "../handles.js";
import type { EventStream } from "../stream.js";
import type { UploadBody } from "../content.js";
import type * as t from "./types.js";

export class AccountAnthropicKeyResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Set the Anthropic key.
   *
   * Replaces the previous key. Agent sessions then use that provider's model at the key owner's expense.
   */
  set(body: t.SetProviderKey, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("PUT", "/v1/account/me/byok-anthropic-key", options, { body, retryable: true });
  }

  /**
   * Remove the Anthropic key.
   *
   * Succeeds when no key is stored.
   */
  remove(options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", "/v1/account/me/byok-anthropic-key", options, { retryable: true });
  }

  /**
   * Test the Anthropic key.
   *
   * Sends the smallest possible request to the provider, at the key owner's expense.
   */
  test(options?: RequestOptions): Promise<t.ProviderKeyTest> {
    return this.#core.call<t.ProviderKeyTest>("POST", "/v1/account/me/byok-anthropic-key/test", options);
  }
}

export class AccountEmailPreferencesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List e-mail preferences.
   *
   * Other kinds of mail have no opt-out.
   */
  list(options?: RequestOptions): Pager<t.EmailPreference> {
    return this.#core.page<t.EmailPreference>("/v1/account/email-preferences", options, { retryable: true });
  }

  /** Update an e-mail preference. */
  set(body: t.EmailPreferenceChange, options?: RequestOptions): Promise<t.EmailPreference> {
    return this.#core.call<t.EmailPreference>("PUT", "/v1/account/email-preferences", options, { body, retryable: true });
  }
}

export class AccountIdentitiesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** List linked identities. */
  list(options?: RequestOptions): Pager<t.LinkedIdentity> {
    return this.#core.page<t.LinkedIdentity>("/v1/account/identities", options, { retryable: true });
  }

  /**
   * Remove a linked identity.
   *
   * It can no longer sign in. The account owner can still sign in with a password or a mailed link.
   */
  remove(identityId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/account/identities/${e(identityId)}`, options, { retryable: true });
  }
}

export class AccountOpenaiKeyResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Set the OpenAI key.
   *
   * Replaces the previous key. Agent sessions then use that provider's model at the key owner's expense.
   */
  set(body: t.SetProviderKey, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("PUT", "/v1/account/me/byok-openai-key", options, { body, retryable: true });
  }

  /**
   * Remove the OpenAI key.
   *
   * Succeeds when no key is stored.
   */
  remove(options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", "/v1/account/me/byok-openai-key", options, { retryable: true });
  }

  /**
   * Test the OpenAI key.
   *
   * Sends the smallest possible request to the provider, at the key owner's expense.
   */
  test(options?: RequestOptions): Promise<t.ProviderKeyTest> {
    return this.#core.call<t.ProviderKeyTest>("POST", "/v1/account/me/byok-openai-key/test", options);
  }
}

export class AccountWebSessionsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** List signed-in devices. */
  list(options?: RequestOptions): Pager<t.SignedInDevice> {
    return this.#core.page<t.SignedInDevice>("/v1/account/web-sessions", options, { retryable: true });
  }

  /** Sign out all other devices. */
  revokeOthers(query: {
      /** The literal `current`: the session of this request is kept */
      keep: string;
    }, options?: RequestOptions): Promise<t.RevokedWebSessions> {
    return this.#core.call<t.RevokedWebSessions>("DELETE", "/v1/account/web-sessions", options, { query, retryable: true });
  }

  /** Sign out a device. */
  revoke(webSessionId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/account/web-sessions/${e(webSessionId)}`, options, { retryable: true });
  }
}

export class AgentSessionsFilesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Attach a file to an agent session.
   *
   * A message can then say `upload "NAME" into …`. The file exists as long as the browser. A later file with the same name replaces
   * an earlier one.
   */
  create(agentSessionId: string, body: t.AgentFileCreate, options?: RequestOptions): Promise<t.AgentFile> {
    return this.#core.call<t.AgentFile>("POST", `/v1/agent-sessions/${e(agentSessionId)}/files`, options, { body });
  }
}

export class BillingCryptoOrdersResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Buy a tier with a cryptocurrency.
   *
   * Returns the payment address and the amount. The account changes tier when the processor reports the payment, and changes back
   * at the end of the period. A request repeated with the same `Idempotency-Key` never creates a second order, and the key does
   * not expire. It receives the first response unchanged, regardless of its body, with `Idempotent-Replayed: 1`.
   */
  create(body: t.CreateCryptoOrder, options?: RequestOptions): Promise<t.CryptoOrder> {
    return this.#core.call<t.CryptoOrder>("POST", "/v1/billing/crypto-checkout", options, { body });
  }

  /** List crypto orders. */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.CryptoOrder> {
    return this.#core.page<t.CryptoOrder>("/v1/billing/crypto-orders", options, { query, retryable: true });
  }

  /** Get a crypto order. */
  get(orderId: string, options?: RequestOptions): Promise<t.CryptoOrder> {
    return this.#core.call<t.CryptoOrder>("GET", `/v1/billing/crypto-orders/${e(orderId)}`, options, { retryable: true });
  }
}

export class OauthClientsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List OAuth clients.
   *
   * Returns the account's clients, newest first.
   */
  list(options?: RequestOptions): Pager<t.OauthClient> {
    return this.#core.page<t.OauthClient>("/v1/oauth/clients", options, { retryable: true });
  }

  /**
   * Create an OAuth client.
   *
   * Returns the client's secret, once. The client exchanges it for access tokens at `POST /v1/oauth/token`.
   */
  create(body: t.NewClient, options?: RequestOptions): Promise<t.OauthClient> {
    return this.#core.call<t.OauthClient>("POST", "/v1/oauth/clients", options, { body });
  }

  /**
   * Delete an OAuth client.
   *
   * The client's tokens are revoked immediately. Deleting a deleted client has no effect.
   */
  delete(oauthClientId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/oauth/clients/${e(oauthClientId)}`, options, { retryable: true });
  }

  /**
   * Rotate the secret of an OAuth client.
   *
   * The previous secret works for another 24 hours, or until the next rotation. Access tokens stay valid.
   */
  rotateSecret(oauthClientId: string, options?: RequestOptions): Promise<t.RotatedClientSecret> {
    return this.#core.call<t.RotatedClientSecret>("POST", `/v1/oauth/clients/${e(oauthClientId)}/rotate-secret`, options);
  }
}

export class ProfilesSnapshotsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Delete a snapshot.
   *
   * Deletes the snapshot permanently.
   */
  delete(snapshotId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/profile-snapshots/${e(snapshotId)}`, options, { retryable: true });
  }

  /**
   * Restore a snapshot.
   *
   * Creates a new profile from the snapshot. The snapshot's profile does not change.
   */
  restore(snapshotId: string, body: t.ProfileCopy = {}, options?: RequestOptions): Promise<t.Profile> {
    return this.#core.call<t.Profile>("POST", `/v1/profile-snapshots/${e(snapshotId)}/restore`, options, { body });
  }

  /** List a profile's snapshots. */
  list(profileId: string, query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.ProfileSnapshot> {
    return this.#core.page<t.ProfileSnapshot>(`/v1/profiles/${e(profileId)}/snapshots`, options, { query, retryable: true });
  }

  /**
   * Take a snapshot of a profile.
   *
   * Stores the current data of the profile. If a live session uses the profile, the snapshot contains the data that the session
   * before it saved.
   */
  create(profileId: string, body: t.SnapshotCreate = {}, options?: RequestOptions): Promise<t.ProfileSnapshot> {
    return this.#core.call<t.ProfileSnapshot>("POST", `/v1/profiles/${e(profileId)}/snapshots`, options, { body });
  }
}

export class SessionsChallengesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Resolve a challenge.
   *
   * Resumes a session that a challenge pauses, even if the page still shows the challenge. The challenge is not reported again
   * until the session shows another page. A challenge that has already ended is not changed.
   */
  resolve(sessionId: string, challengeId: string, options?: RequestOptions): Promise<t.ResolvedChallenge> {
    return this.#core.call<t.ResolvedChallenge>("POST", `/v1/sessions/${e(sessionId)}/challenges/${e(challengeId)}/resolve`, options, { retryable: true });
  }
}

export class SessionsConsoleResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** List console lines. */
  list(sessionId: string, query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.ConsoleEntry> {
    return this.#core.page<t.ConsoleEntry>(`/v1/sessions/${e(sessionId)}/console`, options, { query, retryable: true });
  }
}

export class SessionsCookiesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List a session's cookies.
   *
   * Returns the cookies of all hosts, including those that scripts cannot read. Reading claims the session like any other operation.
   */
  list(sessionId: string, options?: RequestOptions): Pager<t.SessionCookie> {
    return this.#core.page<t.SessionCookie>(`/v1/sessions/${e(sessionId)}/cookies`, options, { retryable: true });
  }

  /**
   * Set cookies of a session.
   *
   * Adds cookies, or replaces those with the same name, domain and path. Values are sealed on their way to the browser.
   */
  set(sessionId: string, body: t.SessionCookiesSet, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("PUT", `/v1/sessions/${e(sessionId)}/cookies`, options, { body, retryable: true });
  }

  /**
   * Delete cookies of a session.
   *
   * Deletes the cookies that match all given parameters; without any, all cookies.
   */
  delete(sessionId: string, query: {
      /** Only cookies with this name */
      name?: string;
      /** Only cookies of this domain; without a leading dot also those with one */
      domain?: string;
      /** Only cookies with this path */
      path?: string;
    } = {}, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/sessions/${e(sessionId)}/cookies`, options, { query, retryable: true });
  }
}

export class SessionsDownloadsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List downloads.
   *
   * Returns the files that the session's pages have downloaded, with those in progress. They exist as long as the session.
   */
  list(sessionId: string, options?: RequestOptions): Pager<t.Download> {
    return this.#core.page<t.Download>(`/v1/sessions/${e(sessionId)}/downloads`, options, { retryable: true });
  }

  /**
   * Get the content of a download.
   *
   * Streams the file. A download in progress is waited for, for up to 30 s.
   */
  content(sessionId: string, downloadId: string, options?: RequestOptions): Promise<Content> {
    return this.#core.content("GET", `/v1/sessions/${e(sessionId)}/downloads/${e(downloadId)}/content`, options, { retryable: true });
  }
}

export class SessionsFramesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Get a picture of a recording. */
  get(sessionId: string, seq: number, options?: RequestOptions): Promise<Content> {
    return this.#core.content("GET", `/v1/sessions/${e(sessionId)}/frames/${e(seq)}`, options, { retryable: true });
  }
}

export class SessionsLiveLinksResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Exchange a live link for a ticket.
   *
   * Returns a new live-view ticket each time it is called. It needs no credential except the link.
   */
  follow(body: t.FollowLiveLink, options?: RequestOptions): Promise<t.LiveTicket> {
    return this.#core.call<t.LiveTicket>("POST", "/v1/live-links/follow", options, { body });
  }

  /**
   * Delete a live link.
   *
   * Disconnects its viewers within 5 s.
   */
  delete(liveLinkId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/live-links/${e(liveLinkId)}`, options, { retryable: true });
  }

  /**
   * List the links to a session's live view.
   *
   * Returns the links that are still valid, without their addresses.
   */
  list(sessionId: string, options?: RequestOptions): Pager<t.LiveLink> {
    return this.#core.page<t.LiveLink>(`/v1/sessions/${e(sessionId)}/live-links`, options, { retryable: true });
  }

  /**
   * Create a live link.
   *
   * Anyone with the address can watch the browser without an account, but cannot control it. The link ends when the session ends,
   * or when its creator loses access to the session.
   */
  create(sessionId: string, body: t.CreateLiveLink = {}, options?: RequestOptions): Promise<t.NewlyMadeLiveLink> {
    return this.#core.call<t.NewlyMadeLiveLink>("POST", `/v1/sessions/${e(sessionId)}/live-links`, options, { body });
  }
}

export class SessionsLiveTicketsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Create a ticket for the live view.
   *
   * A viewer sees the browser. A controller can also send input while a person has control; it needs `write:sessions` instead.
   * With `write:agents` and a `client_id` a controller can also take over an agent session in the live view and hand it back.
   */
  create(sessionId: string, body: t.LiveTicketRequest = {}, options?: RequestOptions): Promise<t.LiveTicket> {
    return this.#core.call<t.LiveTicket>("POST", `/v1/sessions/${e(sessionId)}/live-tickets`, options, { body });
  }
}

export class SessionsOperationsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List operations.
   *
   * Returns the operations of a session, newest first, for 7 days. It needs no recording.
   */
  list(sessionId: string, query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.SessionOperation> {
    return this.#core.page<t.SessionOperation>(`/v1/sessions/${e(sessionId)}/operations`, options, { query, retryable: true });
  }
}

export class SessionsPagesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List a session's pages.
   *
   * Returns the open pages, oldest first. A page that a link or a script opens is a page of its own and becomes the active one.
   * Operations act on the active page. Listing claims the session like any other operation.
   */
  list(sessionId: string, options?: RequestOptions): Pager<t.SessionPage> {
    return this.#core.page<t.SessionPage>(`/v1/sessions/${e(sessionId)}/pages`, options, { retryable: true });
  }

  /**
   * Open a page.
   *
   * Opens a page, makes it the active one and loads the address, if there is one. A session has at most 8 pages; one more is a
   * 409. If the address cannot be reached (DNS, TLS, network), the request fails with 502 and the session is errored.
   */
  open(sessionId: string, body: t.SessionPageOpen = {}, options?: RequestOptions): Promise<t.SessionPage> {
    return this.#core.call<t.SessionPage>("POST", `/v1/sessions/${e(sessionId)}/pages`, options, { body });
  }

  /**
   * Close a page.
   *
   * If the page was the active one, its opener becomes active, or else the newest page. The last page cannot be closed.
   */
  close(sessionId: string, pageId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/sessions/${e(sessionId)}/pages/${e(pageId)}`, options, { retryable: true });
  }

  /**
   * Activate a page.
   *
   * Makes the page the active one, which operations act on. The other pages keep running in the background.
   */
  activate(sessionId: string, pageId: string, options?: RequestOptions): Promise<t.SessionPage> {
    return this.#core.call<t.SessionPage>("POST", `/v1/sessions/${e(sessionId)}/pages/${e(pageId)}/activate`, options, { retryable: true });
  }
}

export class SessionsRecordingResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Get the HAR file.
   *
   * Streams the requests of a recording as HAR 1.2, without bodies.
   */
  har(sessionId: string, options?: RequestOptions): Promise<unknown> {
    return this.#core.call<unknown>("GET", `/v1/sessions/${e(sessionId)}/har`, options, { retryable: true });
  }

  /**
   * Delete the recording.
   *
   * Removes it at once, and revokes the links to its trace. A live session is not recorded any more.
   */
  delete(sessionId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/sessions/${e(sessionId)}/recording`, options, { retryable: true });
  }

  /**
   * Get the trace.
   *
   * Streams the recording as a ZIP file for Playwright's trace viewer: `npx playwright show-trace`, or a trace link at
   * `https://trace.playwright.dev`. Viewers before 1.63 need `format=8`, and before 1.53 `format=7`.
   */
  trace(sessionId: string, query: {
      /** Version of the format: 9 (default), 8 or 7 */
      format?: number;
    } = {}, options?: RequestOptions): Promise<Content> {
    return this.#core.content("GET", `/v1/sessions/${e(sessionId)}/trace`, options, { query, retryable: true });
  }
}

export class SessionsRequestsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List requests.
   *
   * Returns the requests of the session's pages. Their bodies are not recorded.
   */
  list(sessionId: string, query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.RequestEntry> {
    return this.#core.page<t.RequestEntry>(`/v1/sessions/${e(sessionId)}/requests`, options, { query, retryable: true });
  }
}

export class SessionsTimelineResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Get the timeline.
   *
   * Returns the events of a recording, oldest first. With `Accept: text/event-stream` it sends them as server-sent events, with
   * `event` (the type), `id` (the number) and JSON `data`, and new ones while the session lives. `Last-Event-ID` continues after an
   * event. After the last event of an ended session comes `event: end`, and the stream closes. An account can have at most 16 streams
   * of timelines at a time. Without a recording the list is empty.
   */
  list(sessionId: string, query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.TimelineEvent> {
    return this.#core.page<t.TimelineEvent>(`/v1/sessions/${e(sessionId)}/timeline`, options, { query, retryable: true });
  }

  /**
   * Get the timeline.
   *
   * Returns the events of a recording, oldest first. With `Accept: text/event-stream` it sends them as server-sent events, with
   * `event` (the type), `id` (the number) and JSON `data`, and new ones while the session lives. `Last-Event-ID` continues after an
   * event. After the last event of an ended session comes `event: end`, and the stream closes. An account can have at most 16 streams
   * of timelines at a time. Without a recording the list is empty.
   */
  stream(sessionId: string, query: {
      /** ID of the last event that was received */
      last_event_id?: string;
    } = {}, options?: RequestOptions): EventStream {
    return this.#core.events(`/v1/sessions/${e(sessionId)}/timeline`, options, { query, retryable: true });
  }
}

export class SessionsTraceLinksResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Download a trace by its link.
   *
   * Streams the trace as a ZIP file. It needs no credential except the link. `https://trace.playwright.dev` may read the answer.
   */
  download(secret: string, query: {
      /** Version of the format: 9 (default), 8 or 7 */
      format?: number;
    } = {}, options?: RequestOptions): Promise<Content> {
    return this.#core.content("GET", `/traces/${e(secret)}`, options, { query, retryable: true });
  }

  /**
   * List the links to a session's trace.
   *
   * Returns the links that are still valid, without their addresses.
   */
  list(sessionId: string, options?: RequestOptions): Pager<t.TraceLink> {
    return this.#core.page<t.TraceLink>(`/v1/sessions/${e(sessionId)}/trace-links`, options, { retryable: true });
  }

  /**
   * Create a trace link.
   *
   * Anyone with the address can download the trace without an account. The link ends when it expires or is deleted, when the
   * recording is deleted, or when its creator loses access to the session.
   */
  create(sessionId: string, body: t.CreateTraceLink = {}, options?: RequestOptions): Promise<t.NewTraceLinkBody> {
    return this.#core.call<t.NewTraceLinkBody>("POST", `/v1/sessions/${e(sessionId)}/trace-links`, options, { body });
  }

  /** Delete a trace link. */
  delete(traceLinkId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/trace-links/${e(traceLinkId)}`, options, { retryable: true });
  }
}

export class TeamInvitesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List invitations.
   *
   * Returns the pending invitations to the caller's team.
   */
  list(options?: RequestOptions): Pager<t.Invite> {
    return this.#core.page<t.Invite>("/v1/team/invites", options, { retryable: true });
  }

  /**
   * Invite a team member.
   *
   * Mails a link that is valid for 7 days. An earlier pending invitation to the same address stops working.
   */
  create(body: t.NewInvite, options?: RequestOptions): Promise<t.SentInvite> {
    return this.#core.call<t.SentInvite>("POST", "/v1/team/invites", options, { body });
  }

  /**
   * Accept an invitation.
   *
   * Adds the caller to the owner's team. The caller must have the e-mail address that was invited. A token works once.
   */
  accept(body: t.LinkToken, options?: RequestOptions): Promise<t.AcceptedInvite> {
    return this.#core.call<t.AcceptedInvite>("POST", "/v1/team/invites/accept", options, { body, retryable: true });
  }

  /**
   * Revoke an invitation.
   *
   * Its link stops working.
   */
  revoke(inviteId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/team/invites/${e(inviteId)}`, options, { retryable: true });
  }

  /**
   * Resend an invitation.
   *
   * Mails a new link that is valid for 7 days. The previous link stops working.
   */
  resend(inviteId: string, options?: RequestOptions): Promise<t.SentInvite> {
    return this.#core.call<t.SentInvite>("POST", `/v1/team/invites/${e(inviteId)}/resend`, options);
  }
}

export class TeamMembersResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List members.
   *
   * Returns the members of the caller's team.
   */
  list(options?: RequestOptions): Pager<t.Membership> {
    return this.#core.page<t.Membership>("/v1/team/members", options, { retryable: true });
  }

  /**
   * Remove a member.
   *
   * Also revokes every active API key that the member created on the caller's account.
   */
  remove(membershipId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/team/members/${e(membershipId)}`, options, { retryable: true });
  }

  /**
   * Change the role of a member.
   *
   * API keys that the member created on the caller's account have the rights of the new role from their next use on.
   */
  update(membershipId: string, body: t.UpdateMembership, options?: RequestOptions): Promise<t.Membership> {
    return this.#core.call<t.Membership>("PATCH", `/v1/team/members/${e(membershipId)}`, options, { body, retryable: true });
  }
}

export class TeamOwnersResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List team owners.
   *
   * Returns the owners of the teams that the caller is a member of.
   */
  list(options?: RequestOptions): Pager<t.TeamOwner> {
    return this.#core.page<t.TeamOwner>("/v1/team/owners", options, { retryable: true });
  }
}

export class AccountResource {
  readonly #core: Core;
  readonly emailPreferences: AccountEmailPreferencesResource;
  readonly identities: AccountIdentitiesResource;
  readonly anthropicKey: AccountAnthropicKeyResource;
  readonly openaiKey: AccountOpenaiKeyResource;
  readonly webSessions: AccountWebSessionsResource;

  constructor(core: Core) {
    this.#core = core;
    this.emailPreferences = new AccountEmailPreferencesResource(core);
    this.identities = new AccountIdentitiesResource(core);
    this.anthropicKey = new AccountAnthropicKeyResource(core);
    this.openaiKey = new AccountOpenaiKeyResource(core);
    this.webSessions = new AccountWebSessionsResource(core);
  }

  /**
   * Change the e-mail address.
   *
   * Mails a link to the new address. The account keeps its address until the link is used. If the new address has an account, it
   * gets a mail that says so, and nothing changes. An account with a second factor requires a recent second-factor proof.
   */
  requestEmailChange(body: t.ChangeEmail, options?: RequestOptions): Promise<t.RequestedEmailChange> {
    return this.#core.call<t.RequestedEmailChange>("POST", "/v1/account/email", options, { body });
  }

  /**
   * Confirm a new e-mail address.
   *
   * Takes the token of the mailed link. The previous address gets a mail about the change. Web sessions and API keys keep working.
   */
  confirmEmailChange(body: t.LinkToken, options?: RequestOptions): Promise<t.ChangedEmail> {
    return this.#core.call<t.ChangedEmail>("POST", "/v1/account/email/confirm", options, { body });
  }

  /** Get the caller's account. */
  get(options?: RequestOptions): Promise<t.OwnAccount> {
    return this.#core.call<t.OwnAccount>("GET", "/v1/account/me", options, { retryable: true });
  }

  /**
   * Delete the caller's account.
   *
   * Deletion is permanent. Live sessions are destroyed; API keys and web sessions are revoked. An account with a second factor
   * requires a recent second-factor proof.
   */
  delete(body: t.DeleteAccount, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", "/v1/account/me", options, { body, retryable: true });
  }

  /** Update the caller's account. */
  update(body: t.UpdateAccount, options?: RequestOptions): Promise<t.OwnAccount> {
    return this.#core.call<t.OwnAccount>("PATCH", "/v1/account/me", options, { body, retryable: true });
  }

  /**
   * Set the consent to the deployment's model.
   *
   * The default is no consent.
   */
  setBundledLlmConsent(body: t.BundledLlmConsent, options?: RequestOptions): Promise<t.BundledLlmConsent> {
    return this.#core.call<t.BundledLlmConsent>("PUT", "/v1/account/me/bundled-llm-consent", options, { body, retryable: true });
  }

  /**
   * Change the password.
   *
   * Ends all other web sessions. An account without a password sets one with a password reset link. An account with a second
   * factor requires a recent second-factor proof.
   */
  setPassword(body: t.SetPassword, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("POST", "/v1/account/password", options, { body });
  }
}

export class AgentSessionsResource {
  readonly #core: Core;
  readonly files: AgentSessionsFilesResource;

  constructor(core: Core) {
    this.#core = core;
    this.files = new AgentSessionsFilesResource(core);
  }

  /**
   * List agent sessions.
   *
   * Returns the account's agent sessions, newest first.
   */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
      /** Only agent sessions of this status */
      status?: t.AgentSessionStatus;
      /** Only agent sessions with exactly this label */
      label?: string;
    } = {}, options?: RequestOptions): Pager<AgentSession> {
    return this.#core.page<AgentSession>("/v1/agent-sessions", options, { query, retryable: true, handle: "AgentSession" });
  }

  /**
   * Create an agent session.
   *
   * Opens a browser of the chosen archetype, as for a session, and returns when it is ready. The agent session occupies one of the
   * account's concurrent slots until it is closed. A request with an `Idempotency-Key` can be repeated: it creates nothing more
   * and returns the first response, even if that was an error.
   */
  create(body: t.AgentSessionCreate = {}, options?: RequestOptions): Promise<AgentSession> {
    return this.#core.call<AgentSession>("POST", "/v1/agent-sessions", options, { body, handle: "AgentSession" });
  }

  /** Get an agent session. */
  get(agentSessionId: string, options?: RequestOptions): Promise<AgentSession> {
    return this.#core.call<AgentSession>("GET", `/v1/agent-sessions/${e(agentSessionId)}`, options, { retryable: true, handle: "AgentSession" });
  }

  /**
   * Close an agent session.
   *
   * Destroys its driver session, which frees the slot immediately. A turn in progress ends without another step. Closing an agent
   * session again has no effect. With `purge=true` the agent session is also deleted, with its transcript, its receipts and its
   * idempotency key. It then no longer counts toward the account's quota. A purge fails with 409 while the last turn is still
   * ending.
   */
  close(agentSessionId: string, query: {
      /** `true` deletes the agent session with its transcript */
      purge?: boolean;
    } = {}, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/agent-sessions/${e(agentSessionId)}`, options, { query, retryable: true });
  }

  /**
   * Cancel the turn in progress.
   *
   * The turn ends after its current step; its other steps are skipped. Fails with 409 while no turn is in progress.
   */
  cancel(agentSessionId: string, options?: RequestOptions): Promise<AgentSession> {
    return this.#core.call<AgentSession>("POST", `/v1/agent-sessions/${e(agentSessionId)}/cancel`, options, { handle: "AgentSession" });
  }

  /** Hand back to the AI. */
  handBack(agentSessionId: string, body: t.AgentSessionClient, options?: RequestOptions): Promise<AgentSession> {
    return this.#core.call<AgentSession>("POST", `/v1/agent-sessions/${e(agentSessionId)}/handback`, options, { body, handle: "AgentSession" });
  }

  /**
   * Keep control.
   *
   * Renews the client's control. A client in control must call this more often than every 30 s.
   */
  heartbeat(agentSessionId: string, body: t.AgentSessionClient, options?: RequestOptions): Promise<AgentSession> {
    return this.#core.call<AgentSession>("POST", `/v1/agent-sessions/${e(agentSessionId)}/heartbeat`, options, { body, handle: "AgentSession" });
  }

  /**
   * Get a LiveKit token.
   *
   * Returns a token for the room that shows the agent session by video. Fails with 503 if the deployment has no machine that shows
   * sessions.
   */
  livekitToken(agentSessionId: string, query: {
      /** A viewer watches. A controller can also send input, which requires `write:agents` */
      role: t.LiveRole;
    }, options?: RequestOptions): Promise<t.LivekitToken> {
    return this.#core.call<t.LivekitToken>("GET", `/v1/agent-sessions/${e(agentSessionId)}/livekit-token`, options, { query, retryable: true });
  }

  /**
   * Send a message.
   *
   * Interprets the message and performs its steps one by one. A step that submits data is performed only after its ID is in
   * `approvals` of the next message. An agent session processes one message at a time. If the client disconnects, the transcript
   * shows the outcome. A message with an `Idempotency-Key` can be repeated: no step is performed twice, and the first response is
   * returned.
   */
  sendMessage(agentSessionId: string, body: t.AgentMessage, options?: RequestOptions): Promise<t.AgentTurn> {
    return this.#core.call<t.AgentTurn>("POST", `/v1/agent-sessions/${e(agentSessionId)}/message`, options, { body, slow: true });
  }

  /**
   * Change the mode.
   *
   * Fails while a person has control in pair mode. Setting the current mode again changes nothing.
   */
  setMode(agentSessionId: string, body: t.AgentSessionModeChange, options?: RequestOptions): Promise<AgentSession> {
    return this.#core.call<AgentSession>("POST", `/v1/agent-sessions/${e(agentSessionId)}/mode`, options, { body, handle: "AgentSession" });
  }

  /**
   * Suggest a recipe.
   *
   * Returns a label and a description for a recipe of the agent session in its current state. It creates nothing, and the same
   * steps always produce the same suggestion.
   */
  recipeSuggestion(agentSessionId: string, options?: RequestOptions): Promise<t.RecipeSuggestion> {
    return this.#core.call<t.RecipeSuggestion>("GET", `/v1/agent-sessions/${e(agentSessionId)}/recipe-suggestion`, options, { retryable: true });
  }

  /**
   * Decline a step that waits for an approval.
   *
   * Ends the plan of the step: the step and those after it are skipped. Returns the agent session. Fails with 409 if the step does
   * not wait for an approval, or while a turn is in progress.
   */
  decline(agentSessionId: string, stepId: string, options?: RequestOptions): Promise<AgentSession> {
    return this.#core.call<AgentSession>("POST", `/v1/agent-sessions/${e(agentSessionId)}/steps/${e(stepId)}/decline`, options, { retryable: true, handle: "AgentSession" });
  }

  /**
   * Take over from the AI.
   *
   * Gives control to the client, in pair mode. Messages are rejected until the client hands back or sends no heartbeat for 30 s. A
   * turn in progress starts no further step. A takeover by the client that already has control changes nothing.
   */
  takeOver(agentSessionId: string, body: t.AgentSessionClient, options?: RequestOptions): Promise<AgentSession> {
    return this.#core.call<AgentSession>("POST", `/v1/agent-sessions/${e(agentSessionId)}/takeover`, options, { body, handle: "AgentSession" });
  }

  /**
   * Read a transcript.
   *
   * Returns the messages of the agent session and the replies, oldest first. Texts to type and the content of captures are
   * omitted.
   */
  transcript(agentSessionId: string, query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.AgentTranscriptEntry> {
    return this.#core.page<t.AgentTranscriptEntry>(`/v1/agent-sessions/${e(agentSessionId)}/transcript`, options, { query, retryable: true });
  }
}

export class ApiKeysResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List API keys.
   *
   * Includes revoked and expired keys.
   */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.ApiKey> {
    return this.#core.page<t.ApiKey>("/v1/api-keys", options, { query, retryable: true });
  }

  /** Create an API key. */
  create(body: t.CreateKey, options?: RequestOptions): Promise<t.MintedKey> {
    return this.#core.call<t.MintedKey>("POST", "/v1/api-keys", options, { body });
  }

  /** Get an API key. */
  get(apiKeyId: string, options?: RequestOptions): Promise<t.ApiKey> {
    return this.#core.call<t.ApiKey>("GET", `/v1/api-keys/${e(apiKeyId)}`, options, { retryable: true });
  }

  /**
   * Revoke an API key.
   *
   * The next request with the key fails. Revoking a revoked key has no effect.
   */
  revoke(apiKeyId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/api-keys/${e(apiKeyId)}`, options, { retryable: true });
  }

  /**
   * Rename an API key.
   *
   * Revoked and expired keys can be renamed, too.
   */
  update(apiKeyId: string, body: t.UpdateKey, options?: RequestOptions): Promise<t.ApiKey> {
    return this.#core.call<t.ApiKey>("PATCH", `/v1/api-keys/${e(apiKeyId)}`, options, { body, retryable: true });
  }

  /**
   * Rotate an API key.
   *
   * Creates a successor; the rotated key keeps working for 24 hours. A key has one successor: to rotate again, rotate the
   * successor.
   */
  rotate(apiKeyId: string, options?: RequestOptions): Promise<t.MintedKey> {
    return this.#core.call<t.MintedKey>("POST", `/v1/api-keys/${e(apiKeyId)}/rotate`, options, { retryable: true });
  }
}

export class ApprovalsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List steps that wait for an approval.
   *
   * Returns the steps of all active agent sessions of the account, newest first. Texts to type are omitted.
   */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.WaitingApproval> {
    return this.#core.page<t.WaitingApproval>("/v1/account/approvals", options, { query, retryable: true });
  }
}

export class ArchetypesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List archetypes.
   *
   * Returns every device that a session can emulate. No credential is needed.
   */
  list(options?: RequestOptions): Pager<t.Archetype> {
    return this.#core.page<t.Archetype>("/v1/archetypes", options, { retryable: true });
  }
}

export class AuditLogResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List the audit log.
   *
   * Returns the newest entries first. Entries cannot be changed or deleted.
   */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
      /** Filter by action */
      action?: string;
      /** Filter by the account that acted */
      actor_account_id?: string;
      /** Filter by the resource that was acted on */
      target_resource_id?: string;
      /** Only entries created at this time or later */
      created_after?: string;
      /** Only entries created before this time */
      created_before?: string;
    } = {}, options?: RequestOptions): Pager<t.AuditEntry> {
    return this.#core.page<t.AuditEntry>("/v1/account/audit-log", options, { query, retryable: true });
  }

  /**
   * Export the audit log.
   *
   * Returns the newest 10,000 entries as a file, newest first. A truncated response is not a complete export. In CSV, an
   * apostrophe precedes a cell that a spreadsheet would evaluate as a formula; `payload` is always a JSON object.
   */
  export(options?: RequestOptions): Promise<t.AuditExport> {
    return this.#core.call<t.AuditExport>("GET", "/v1/account/audit-log/export", options, { query: {"format": "json"}, retryable: true });
  }

  /**
   * Export the audit log.
   *
   * Returns the newest 10,000 entries as a file, newest first. A truncated response is not a complete export. In CSV, an
   * apostrophe precedes a cell that a spreadsheet would evaluate as a formula; `payload` is always a JSON object.
   */
  exportText(query: {
      /** File format */
      format: t.AuditExportFormat;
    }, options?: RequestOptions): Promise<string> {
    return this.#core.text("GET", "/v1/account/audit-log/export", options, { query, retryable: true });
  }
}

export class AuthResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Log in.
   *
   * Takes the e-mail address and the password. An account with a second factor receives a challenge instead of a session.
   */
  logIn(body: t.SignIn, options?: RequestOptions): Promise<t.SignInResult> {
    return this.#core.call<t.SignInResult>("POST", "/v1/auth/login", options, { body });
  }

  /**
   * Log out.
   *
   * Revokes the token. Succeeds when it was already invalid.
   */
  logOut(body: t.SessionToken, options?: RequestOptions): Promise<t.LoggedOut> {
    return this.#core.call<t.LoggedOut>("POST", "/v1/auth/logout", options, { body, retryable: true });
  }

  /** Sign in with a link. */
  consumeMagicLink(body: t.LinkToken, options?: RequestOptions): Promise<t.SignInResult> {
    return this.#core.call<t.SignInResult>("POST", "/v1/auth/magic-link/consume", options, { body, retryable: true });
  }

  /**
   * Mail a sign-in link.
   *
   * The response is the same for every address.
   */
  requestMagicLink(body: t.EmailRequest, options?: RequestOptions): Promise<t.SentEmail> {
    return this.#core.call<t.SentEmail>("POST", "/v1/auth/magic-link/request", options, { body });
  }

  /**
   * Complete a login challenge.
   *
   * Takes a code of the authenticator app or a recovery code, and must come from the IP address of the login. A wrong code does
   * not use up the challenge.
   */
  meetMfaChallenge(body: t.ChallengeProof, options?: RequestOptions): Promise<t.ChallengeMet> {
    return this.#core.call<t.ChallengeMet>("POST", "/v1/auth/mfa/challenge", options, { body, retryable: true });
  }

  /**
   * Step up a web session.
   *
   * Proves the second factor again, for operations that require a recent proof. The web session keeps its token.
   */
  stepUp(body: t.StepUpProof, options?: RequestOptions): Promise<t.SteppedUp> {
    return this.#core.call<t.SteppedUp>("POST", "/v1/auth/mfa/step-up", options, { body, retryable: true });
  }

  /**
   * Confirm a new sign-in method.
   *
   * Links the identity provider to the account with the token of the mailed link, and signs in.
   */
  confirmOauthSignIn(body: t.LinkToken, options?: RequestOptions): Promise<t.SignInResult> {
    return this.#core.call<t.SignInResult>("POST", "/v1/auth/oauth/confirm", options, { body, retryable: true });
  }

  /**
   * Complete a sign-in at an identity provider.
   *
   * Signs in to the linked account, or creates one for a verified address. If the address already has an account, a mail asks its
   * owner to confirm the new sign-in method; no session is created. A browser, which accepts `text/html`, receives a page that
   * repeats the request and shows the result.
   */
  finishOauthSignIn(provider: string, query: {
      /** State from the start of the sign-in */
      state: string;
      /** Authorization code of the provider */
      code?: string;
      /** Error code of the provider, sent instead of a code */
      error?: string;
    }, options?: RequestOptions): Promise<t.SignInResult | t.ConfirmationRequired> {
    return this.#core.call<t.SignInResult | t.ConfirmationRequired>("GET", `/v1/auth/oauth/${e(provider)}/callback`, options, { query });
  }

  /**
   * Start a sign-in at an identity provider.
   *
   * Redirects the browser to the provider. The provider must redirect it back to the callback within ten minutes.
   */
  startOauthSignIn(provider: string, options?: RequestOptions): Promise<string> {
    return this.#core.location("GET", `/v1/auth/oauth/${e(provider)}/start`, options, { retryable: true });
  }

  /**
   * Reset the password.
   *
   * Sets a new password, ends all web sessions of the account, and signs in.
   */
  confirmPasswordReset(body: t.ResetPassword, options?: RequestOptions): Promise<t.SignInResult> {
    return this.#core.call<t.SignInResult>("POST", "/v1/auth/password-reset/confirm", options, { body, retryable: true });
  }

  /**
   * Mail a password reset link.
   *
   * The response is the same for every address.
   */
  requestPasswordReset(body: t.EmailRequest, options?: RequestOptions): Promise<t.SentEmail> {
    return this.#core.call<t.SentEmail>("POST", "/v1/auth/password-reset/request", options, { body });
  }

  /**
   * Refresh a web session.
   *
   * Returns a new token with a new lifetime; the previous token stops working.
   */
  refresh(body: t.SessionToken, options?: RequestOptions): Promise<t.WebSession> {
    return this.#core.call<t.WebSession>("POST", "/v1/auth/refresh", options, { body, retryable: true });
  }

  /**
   * Resend the verification link.
   *
   * The previous link stops working. A link requested from another network than the sign-up removes the sign-up password when it
   * is followed. The response is the same for every address.
   */
  resendVerification(body: t.EmailRequest, options?: RequestOptions): Promise<t.SentEmail> {
    return this.#core.call<t.SentEmail>("POST", "/v1/auth/resend-verification", options, { body });
  }

  /**
   * Sign up.
   *
   * Creates an account and mails a link that verifies its address. The account cannot log in before the address is verified.
   */
  signUp(body: t.SignUp, options?: RequestOptions): Promise<t.SignedUp> {
    return this.#core.call<t.SignedUp>("POST", "/v1/auth/signup", options, { body, retryable: true });
  }

  /**
   * Verify an e-mail address.
   *
   * Takes the token of the mailed link, and signs in. A resent link keeps the sign-up password on two conditions: it was requested
   * from the network of the sign-up, and the original link would still be valid. Otherwise the password is removed, and the
   * response has a `password_reset_token` to set a new one.
   */
  verifyEmail(body: t.LinkToken, options?: RequestOptions): Promise<t.SignInResult> {
    return this.#core.call<t.SignInResult>("POST", "/v1/auth/verify-email", options, { body, retryable: true });
  }
}

export class BillingResource {
  readonly #core: Core;
  readonly cryptoOrders: BillingCryptoOrdersResource;

  constructor(core: Core) {
    this.#core = core;
    this.cryptoOrders = new BillingCryptoOrdersResource(core);
  }

  /**
   * Buy a tier by card.
   *
   * Returns a payment page of the card provider. The account changes tier when the provider reports that the subscription was
   * paid. A request repeated with the same `Idempotency-Key` does not begin a second purchase: the key is passed on to the
   * provider.
   */
  createCheckoutSession(body: t.CreateCheckoutSession, options?: RequestOptions): Promise<t.CheckoutSession> {
    return this.#core.call<t.CheckoutSession>("POST", "/v1/billing/checkout-session", options, { body });
  }

  /**
   * List plans.
   *
   * Returns all tiers with their prices and limits. The free tier has no price and cannot be bought.
   */
  listPlans(options?: RequestOptions): Pager<t.Plan> {
    return this.#core.page<t.Plan>("/v1/billing/plans", options, { retryable: true });
  }

  /**
   * Open the billing portal.
   *
   * Returns a page of the card provider with the account's invoices, cards and subscriptions. An account that has never bought by
   * card gets 404.
   */
  createPortalSession(body: t.CreatePortalSession, options?: RequestOptions): Promise<t.PortalSession> {
    return this.#core.call<t.PortalSession>("POST", "/v1/billing/portal-session", options, { body });
  }

  /**
   * Get the subscription.
   *
   * Returns the tier of the account and the status of its subscription.
   */
  subscription(options?: RequestOptions): Promise<t.BillingSubscription> {
    return this.#core.call<t.BillingSubscription>("GET", "/v1/billing/subscription", options, { retryable: true });
  }
}

export class DeviceCodesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Authorize an app.
   *
   * Creates an API key on the caller's account. The app must collect it within two minutes.
   */
  bind(body: t.BindDevice, options?: RequestOptions): Promise<t.BoundDevice> {
    return this.#core.call<t.BoundDevice>("POST", "/v1/auth/cli-authorize/bind-device-code", options, { body, retryable: true });
  }

  /** Exchange a device code for an API key. */
  exchange(body: t.ExchangeDeviceCode, options?: RequestOptions): Promise<t.DeviceExchange> {
    return this.#core.call<t.DeviceExchange>("POST", "/v1/auth/cli-authorize/exchange", options, { body, retryable: true });
  }

  /**
   * Request a device code.
   *
   * The app shows `user_code`, opens `browser_url`, and polls the exchange every two seconds.
   */
  initiate(body: t.InitiateDevice, options?: RequestOptions): Promise<t.InitiatedDevice> {
    return this.#core.call<t.InitiatedDevice>("POST", "/v1/auth/cli-authorize/initiate", options, { body, retryable: true });
  }

  /**
   * Get a waiting app.
   *
   * Lets a person check the app before authorizing it.
   */
  get(userCode: string, options?: RequestOptions): Promise<t.WaitingDevice> {
    return this.#core.call<t.WaitingDevice>("GET", `/v1/auth/cli-authorize/${e(userCode)}`, options, { retryable: true });
  }
}

export class MfaResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Get the status of the second factor. */
  get(options?: RequestOptions): Promise<t.MfaStatus> {
    return this.#core.call<t.MfaStatus>("GET", "/v1/account/mfa", options, { retryable: true });
  }

  /**
   * Disable the second factor.
   *
   * Requires a recent second-factor proof. Has no effect without a second factor.
   */
  delete(body: t.DisableMfa, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", "/v1/account/mfa", options, { body, retryable: true });
  }

  /**
   * Disable the second factor by POST.
   *
   * Same as `DELETE /v1/account/mfa`, for clients that cannot send a body with a DELETE request.
   */
  disable(body: t.DisableMfa, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("POST", "/v1/account/mfa/disable", options, { body, retryable: true });
  }

  /**
   * Start enrolling a second factor.
   *
   * The second factor takes effect when a code is verified. Starting again replaces the secret.
   */
  enroll(options?: RequestOptions): Promise<t.MfaEnrollment> {
    return this.#core.call<t.MfaEnrollment>("POST", "/v1/account/mfa/enroll", options, { retryable: true });
  }

  /**
   * Replace the recovery codes.
   *
   * The previous recovery codes stop working. Requires a recent second-factor proof.
   */
  regenerateRecoveryCodes(options?: RequestOptions): Promise<t.RecoveryCodes> {
    return this.#core.call<t.RecoveryCodes>("POST", "/v1/account/mfa/recovery-codes/regenerate", options, { retryable: true });
  }

  /**
   * Complete the enrollment.
   *
   * Takes a code of the authenticator app. A wrong code leaves the enrollment pending.
   */
  verify(body: t.MfaCode, options?: RequestOptions): Promise<t.RecoveryCodes> {
    return this.#core.call<t.RecoveryCodes>("POST", "/v1/account/mfa/verify", options, { body, retryable: true });
  }
}

export class NotificationsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List notifications.
   *
   * Returns the account's notifications of the last 24 hours, newest first, in the format of the stream. Events of operations are
   * recorded only while notifications are in use: from the first request for the account's notifications until 24 hours have
   * passed without one.
   */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.Notification> {
    return this.#core.page<t.Notification>("/v1/account/notifications", options, { query, retryable: true });
  }

  /**
   * Stream notifications.
   *
   * Sends the account's notifications as they happen, as server-sent events with `id`, `event` and JSON `data`. An idle stream
   * sends a comment every 15 s. If `Last-Event-ID` contains the last `id`, the stream continues after that event without a gap. If
   * the events after it are no longer stored, the first event is `reset`. An account can have at most 16 streams at a time.
   */
  stream(query: {
      /** Alternative to `Last-Event-ID`, for clients that cannot send headers */
      last_event_id?: string;
    } = {}, options?: RequestOptions): EventStream {
    return this.#core.events("/v1/account/notifications/stream", options, { query, retryable: true });
  }
}

export class OauthResource {
  readonly #core: Core;
  readonly clients: OauthClientsResource;

  constructor(core: Core) {
    this.#core = core;
    this.clients = new OauthClientsResource(core);
  }

  /**
   * Get an access token.
   *
   * Implements the client credentials grant (RFC 6749, section 4.4). The client authenticates by HTTP Basic or by body parameters,
   * not by both.
   */
  createToken(body: t.TokenForm, options?: RequestOptions): Promise<t.TokenAnswer> {
    return this.#core.call<t.TokenAnswer>("POST", "/v1/oauth/token", options, { form: body, retryable: true });
  }
}

export class ProfilesResource {
  readonly #core: Core;
  readonly snapshots: ProfilesSnapshotsResource;

  constructor(core: Core) {
    this.#core = core;
    this.snapshots = new ProfilesSnapshotsResource(core);
  }

  /**
   * List profiles.
   *
   * Returns the profiles outside the recycle bin, or those in it.
   */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
      /** `true` to list the recycle bin */
      deleted?: boolean;
    } = {}, options?: RequestOptions): Pager<t.Profile> {
    return this.#core.page<t.Profile>("/v1/profiles", options, { query, retryable: true });
  }

  /**
   * Create a profile.
   *
   * Creates an empty profile; a session that uses it fills it when the session ends. The account's tier limits the number of
   * profiles. Profiles in the recycle bin count.
   */
  create(body: t.ProfileCreate, options?: RequestOptions): Promise<t.Profile> {
    return this.#core.call<t.Profile>("POST", "/v1/profiles", options, { body });
  }

  /**
   * Import a profile.
   *
   * Creates a profile from a document of `GET /v1/profiles/{id}/export`, of at most 300 MiB. The whole document is validated
   * before anything is stored. Documents of version 1, which contained browser files, are rejected.
   */
  importArchive(body: UploadBody, options?: RequestOptions): Promise<t.Profile> {
    return this.#core.call<t.Profile>("POST", "/v1/profiles/import", options, { body, media: "application/vnd.kitfleet.profile+json" });
  }

  /** Get a profile. */
  get(profileId: string, options?: RequestOptions): Promise<t.Profile> {
    return this.#core.call<t.Profile>("GET", `/v1/profiles/${e(profileId)}`, options, { retryable: true });
  }

  /**
   * Delete a profile.
   *
   * Moves the profile to the recycle bin, from which it can be restored for 30 days. It counts toward the tier's limit until it is
   * purged.
   */
  delete(profileId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/profiles/${e(profileId)}`, options, { retryable: true });
  }

  /** Rename a profile. */
  update(profileId: string, body: t.ProfileUpdate, options?: RequestOptions): Promise<t.Profile> {
    return this.#core.call<t.Profile>("PATCH", `/v1/profiles/${e(profileId)}`, options, { body, retryable: true });
  }

  /**
   * Clone a profile.
   *
   * Creates an independent profile with the same data. If a live session uses the source, the clone gets the data that the session
   * before it saved.
   */
  clone(profileId: string, body: t.ProfileCopy = {}, options?: RequestOptions): Promise<t.Profile> {
    return this.#core.call<t.Profile>("POST", `/v1/profiles/${e(profileId)}/clone`, options, { body });
  }

  /**
   * Export a profile.
   *
   * Returns a document that can be imported into any account. It contains the cookies and storage values in plain text. If a live
   * session uses the profile, the document contains the data that the session before it saved. If the transfer breaks off, the
   * document is incomplete.
   */
  exportArchive(profileId: string, options?: RequestOptions): Promise<Content> {
    return this.#core.content("GET", `/v1/profiles/${e(profileId)}/export`, options, { retryable: true });
  }

  /**
   * Launch a profile.
   *
   * Creates a session that starts from the profile's data, as `POST /v1/sessions` does with a `profile_id`. The session has the
   * profile's archetype.
   */
  launch(profileId: string, body: t.ProfileLaunch = {}, options?: RequestOptions): Promise<Session> {
    return this.#core.call<Session>("POST", `/v1/profiles/${e(profileId)}/launch`, options, { body, handle: "Session" });
  }

  /**
   * Purge a deleted profile.
   *
   * Deletes the profile and its snapshots permanently. It then no longer counts toward the tier's limit.
   */
  purge(profileId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/profiles/${e(profileId)}/purge`, options, { retryable: true });
  }

  /**
   * Restore a deleted profile.
   *
   * Moves the profile and its snapshots out of the recycle bin.
   */
  restore(profileId: string, options?: RequestOptions): Promise<t.Profile> {
    return this.#core.call<t.Profile>("POST", `/v1/profiles/${e(profileId)}/restore`, options, { retryable: true });
  }
}

export class ProxiesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List saved proxies.
   *
   * Returns the account's saved proxies, newest first.
   */
  list(options?: RequestOptions): Pager<t.SavedProxy> {
    return this.#core.page<t.SavedProxy>("/v1/account/me/proxies", options, { retryable: true });
  }

  /**
   * Save a proxy.
   *
   * Saves an egress route for agent sessions: a `socks5` or `http` proxy at a `host` and `port`, or a `wireguard` or `openvpn`
   * tunnel to the server in its `config`. Passwords and configurations are sealed and never returned.
   */
  create(body: t.ProxySave, options?: RequestOptions): Promise<t.SavedProxy> {
    return this.#core.call<t.SavedProxy>("POST", "/v1/account/me/proxies", options, { body });
  }

  /** Get a saved proxy. */
  get(proxyId: string, options?: RequestOptions): Promise<t.SavedProxy> {
    return this.#core.call<t.SavedProxy>("GET", `/v1/account/me/proxies/${e(proxyId)}`, options, { retryable: true });
  }

  /**
   * Replace a saved proxy.
   *
   * Accepts the same body as its creation; `scheme` cannot change. An absent secret is kept, and `null` removes it. If the host,
   * port or configuration changes, a stored password must be sent again. Sessions that already use the proxy keep the old
   * settings.
   */
  replace(proxyId: string, body: t.ProxySave, options?: RequestOptions): Promise<t.SavedProxy> {
    return this.#core.call<t.SavedProxy>("PUT", `/v1/account/me/proxies/${e(proxyId)}`, options, { body, retryable: true });
  }

  /**
   * Delete a saved proxy.
   *
   * Deletes the proxy and its secrets permanently. Fails while a live session uses the proxy.
   */
  delete(proxyId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/account/me/proxies/${e(proxyId)}`, options, { retryable: true });
  }

  /**
   * Check a saved proxy.
   *
   * A worker connects to the proxy and through it, as a session would, and reports the result within 20 s. An account can run one
   * check at a time.
   */
  check(proxyId: string, options?: RequestOptions): Promise<t.ProxyCheck> {
    return this.#core.call<t.ProxyCheck>("POST", `/v1/account/me/proxies/${e(proxyId)}/check`, options);
  }
}

export class RecipesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** List recipes. */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
    } = {}, options?: RequestOptions): Pager<t.Recipe> {
    return this.#core.page<t.Recipe>("/v1/recipes", options, { query, retryable: true });
  }

  /**
   * Create a recipe.
   *
   * Records the steps of an agent session that were performed as parts of plans, in their order. A recipe never changes, whatever
   * happens to the agent session.
   */
  create(body: t.CreateRecipe, options?: RequestOptions): Promise<t.Recipe> {
    return this.#core.call<t.Recipe>("POST", "/v1/recipes", options, { body });
  }

  /**
   * Get a recipe.
   *
   * Returns the recipe with its steps, without typed texts. With a `format` other than `json` it returns a program that performs
   * the steps with plain calls of this API: `curl` for Bash, `python` for its standard library, `typescript` for Node. The program
   * reads the texts to type from environment variables.
   */
  get(recipeId: string, options?: RequestOptions): Promise<t.RecipeWithSteps> {
    return this.#core.call<t.RecipeWithSteps>("GET", `/v1/recipes/${e(recipeId)}`, options, { retryable: true });
  }

  /**
   * Get a recipe.
   *
   * Returns the recipe with its steps, without typed texts. With a `format` other than `json` it returns a program that performs
   * the steps with plain calls of this API: `curl` for Bash, `python` for its standard library, `typescript` for Node. The program
   * reads the texts to type from environment variables.
   */
  getText(recipeId: string, query: {
      /** Format; `json` by default */
      format?: t.RecipeFormat;
    } = {}, options?: RequestOptions): Promise<string> {
    return this.#core.text("GET", `/v1/recipes/${e(recipeId)}`, options, { query, retryable: true });
  }

  /**
   * Delete a recipe.
   *
   * Deletes the recipe permanently.
   */
  delete(recipeId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/recipes/${e(recipeId)}`, options, { retryable: true });
  }
}

export class SessionsResource {
  readonly #core: Core;
  readonly traceLinks: SessionsTraceLinksResource;
  readonly liveLinks: SessionsLiveLinksResource;
  readonly challenges: SessionsChallengesResource;
  readonly console: SessionsConsoleResource;
  readonly cookies: SessionsCookiesResource;
  readonly downloads: SessionsDownloadsResource;
  readonly frames: SessionsFramesResource;
  readonly recording: SessionsRecordingResource;
  readonly liveTickets: SessionsLiveTicketsResource;
  readonly operations: SessionsOperationsResource;
  readonly pages: SessionsPagesResource;
  readonly requests: SessionsRequestsResource;
  readonly timeline: SessionsTimelineResource;

  constructor(core: Core) {
    this.#core = core;
    this.traceLinks = new SessionsTraceLinksResource(core);
    this.liveLinks = new SessionsLiveLinksResource(core);
    this.challenges = new SessionsChallengesResource(core);
    this.console = new SessionsConsoleResource(core);
    this.cookies = new SessionsCookiesResource(core);
    this.downloads = new SessionsDownloadsResource(core);
    this.frames = new SessionsFramesResource(core);
    this.recording = new SessionsRecordingResource(core);
    this.liveTickets = new SessionsLiveTicketsResource(core);
    this.operations = new SessionsOperationsResource(core);
    this.pages = new SessionsPagesResource(core);
    this.requests = new SessionsRequestsResource(core);
    this.timeline = new SessionsTimelineResource(core);
  }

  /**
   * List sessions.
   *
   * Returns the account's sessions, newest first.
   */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
      /** Only sessions of these statuses, separated by commas, such as `ready,busy` */
      status?: t.SessionStatus[];
      /** Only sessions with exactly this label */
      label?: string;
      /** Only sessions of this archetype */
      archetype?: string;
      /** Only sessions that started from this profile */
      profile_id?: string;
      /** Only sessions that this API key created */
      api_key_id?: string;
      /** Only entries created at this time or later */
      created_after?: string;
      /** Only entries created before this time */
      created_before?: string;
    } = {}, options?: RequestOptions): Pager<Session> {
    return this.#core.page<Session>("/v1/sessions", options, { query, retryable: true, handle: "Session" });
  }

  /**
   * Create a session.
   *
   * Opens a mobile browser of the chosen archetype and returns when it is ready. The session occupies one of the account's
   * concurrent slots until it is destroyed or errored. With a `profile_id` the session starts with the profile's data, and its
   * data is saved back to the profile when it ends. A profile can have one live session at a time. If all browsers are taken, the
   * request waits up to `wait_timeout_ms` for a free one; waiting accounts are served in turn. A raw `proxy` is rejected: customer
   * egress is configured through an agent session.
   */
  create(body: t.SessionCreate = {}, options?: RequestOptions): Promise<Session> {
    return this.#core.call<Session>("POST", "/v1/sessions", options, { body, handle: "Session" });
  }

  /** Get a session. */
  get(sessionId: string, options?: RequestOptions): Promise<Session> {
    return this.#core.call<Session>("GET", `/v1/sessions/${e(sessionId)}`, options, { retryable: true, handle: "Session" });
  }

  /**
   * Destroy a session.
   *
   * Frees the session's slot immediately. An operation in progress fails with 410. Destroying a session again has no effect.
   */
  destroy(sessionId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/sessions/${e(sessionId)}`, options, { retryable: true });
  }

  /**
   * Capture a screenshot, the DOM or a PDF.
   *
   * Returns a picture or a PDF in base64, and the DOM as text. A result that exceeds its limit is withheld with a 502, and the
   * session stays ready.
   */
  capture(sessionId: string, body: t.Capture, options?: RequestOptions): Promise<t.Captured> {
    return this.#core.call<t.Captured>("POST", `/v1/sessions/${e(sessionId)}/capture`, options, { body, retryable: true });
  }

  /**
   * Change the emulation of a session.
   *
   * Changes the members of the body and returns the emulation in force. The current page sees the change without a new load,
   * except for blocked requests and headers of requests that it has already sent. `locale` and `timezone` are fixed for the lifetime
   * of the session. Values of headers are sealed on their way to the browser: they are neither stored in plain text nor returned.
   */
  updateEmulation(sessionId: string, body: t.SessionEmulationUpdate = {}, options?: RequestOptions): Promise<t.SessionEmulation> {
    return this.#core.call<t.SessionEmulation>("PATCH", `/v1/sessions/${e(sessionId)}/emulation`, options, { body, retryable: true });
  }

  /**
   * Run a script in the page.
   *
   * Runs the body of an async function among the page's own scripts and returns its value. An exception of the script is a result
   * too, and the session stays ready. The script, its arguments and its value are in no log.
   */
  evaluate(sessionId: string, body: t.Evaluate, options?: RequestOptions): Promise<t.Evaluated> {
    return this.#core.call<t.Evaluated>("POST", `/v1/sessions/${e(sessionId)}/evaluate`, options, { body });
  }

  /** Extract values from the page. */
  extract(sessionId: string, body: t.Extract, options?: RequestOptions): Promise<t.Extracted> {
    return this.#core.call<t.Extracted>("POST", `/v1/sessions/${e(sessionId)}/extract`, options, { body, retryable: true });
  }

  /**
   * Tap, type, fill, select, scroll, press a key, upload files, answer a dialog, go back or forward, or reload.
   *
   * If several elements match, the action is not performed: the request fails with 400 and up to five `candidates`, and the
   * session stays `ready`. With `dialogs: hold`, a dialog ends the action early: the response has the `dialog`, and the action
   * `dialog` answers it. Typed text is sealed on its way to the browser: it is neither stored in plain text nor logged. Files of
   * an `upload` are not stored; they exist in the browser until the session ends.
   */
  interact(sessionId: string, body: t.Interact, options?: RequestOptions): Promise<t.Interacted> {
    return this.#core.call<t.Interacted>("POST", `/v1/sessions/${e(sessionId)}/interact`, options, { body });
  }

  /**
   * Watch a session.
   *
   * Opens a WebSocket. The ticket, offered as a subprotocol, is the only credential. In a browser, only pages of this service and
   * of origins that the deployment allows can open it.
   */
  live(sessionId: string): string {
    return this.#core.address(`/v1/sessions/${e(sessionId)}/live`);
  }

  /**
   * Fill in and submit a login form.
   *
   * Available if the deployment's driver reports this capability. Otherwise every request fails with 503, whatever its content.
   * The credentials are sealed on their way to the browser. `logged_in` is an estimate, not proof.
   */
  login(sessionId: string, body: t.SessionLogin, options?: RequestOptions): Promise<t.LoginResult> {
    return this.#core.call<t.LoginResult>("POST", `/v1/sessions/${e(sessionId)}/login`, options, { body });
  }

  /**
   * Load a page.
   *
   * An HTTP error page counts as a success and is returned with its `status`. So does a response without a page: 204, 205, 304 and
   * downloads leave the previous page in place. If the page cannot be reached (DNS, TLS, network), the request fails with 502 and the
   * session is errored, unless `on_failure` is `return`.
   */
  navigate(sessionId: string, body: t.Navigate, options?: RequestOptions): Promise<t.Navigated> {
    return this.#core.call<t.Navigated>("POST", `/v1/sessions/${e(sessionId)}/navigate`, options, { body });
  }

  /**
   * Fill in and submit a search form.
   *
   * Available if the deployment's driver reports this capability. Otherwise every request fails with 503, whatever its content.
   */
  search(sessionId: string, body: t.SessionSearch, options?: RequestOptions): Promise<t.SearchResult> {
    return this.#core.call<t.SearchResult>("POST", `/v1/sessions/${e(sessionId)}/search`, options, { body });
  }

  /**
   * Take a snapshot of the page.
   *
   * Returns the page as assistive technology presents it: roles, names, states, and a `ref` that operations can use to address an
   * element. The value of a password field is never included.
   */
  snapshot(sessionId: string, body: t.PageSnapshotRequest = {}, options?: RequestOptions): Promise<t.PageSnapshot> {
    return this.#core.call<t.PageSnapshot>("POST", `/v1/sessions/${e(sessionId)}/snapshot`, options, { body, retryable: true });
  }

  /**
   * Read the session's state.
   *
   * Reads the state from the live browser, which claims the session like any other operation.
   */
  state(sessionId: string, options?: RequestOptions): Promise<t.SessionState> {
    return this.#core.call<t.SessionState>("GET", `/v1/sessions/${e(sessionId)}/state`, options, { retryable: true });
  }

  /**
   * Wait for an element, a text, a script, an address, a response, a load, a download, a new page or a period of time.
   *
   * Returns when the condition is met. A timeout is a 504 and errors the session, unless `on_timeout` is `return`.
   */
  wait(sessionId: string, body: t.Wait, options?: RequestOptions): Promise<t.Waited> {
    return this.#core.call<t.Waited>("POST", `/v1/sessions/${e(sessionId)}/wait`, options, { body, retryable: true });
  }
}

export class StatusResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Get the status of the service.
   *
   * Responds within a second, even if the database does not respond.
   */
  get(options?: RequestOptions): Promise<t.ServiceStatus> {
    return this.#core.call<t.ServiceStatus>("GET", "/v1/status", options, { retryable: true });
  }

  /**
   * Subscribe to incidents.
   *
   * Mails a confirmation link to the address. The subscription begins when the link is followed. The response is the same whether
   * or not the address is already subscribed.
   */
  subscribe(body: t.StatusSubscription, options?: RequestOptions): Promise<t.SubscriptionAsked> {
    return this.#core.call<t.SubscriptionAsked>("POST", "/v1/status/subscribers", options, { body });
  }
}

export class SystemResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Check liveness.
   *
   * Checks only the process itself.
   */
  health(options?: RequestOptions): Promise<t.Health> {
    return this.#core.call<t.Health>("GET", "/healthz", options, { retryable: true });
  }

  /**
   * Get the operator metrics.
   *
   * Returns the text exposition format to a scraper that presents the deployment's metrics token. Counters restart at zero with
   * the process.
   */
  metrics(options?: RequestOptions): Promise<string> {
    return this.#core.text("GET", "/metrics", options, { retryable: true });
  }

  /**
   * Get the OpenAPI document.
   *
   * The document for customers has no staff routes, no routes for payment providers and no registration of nodes.
   */
  openapi(query: {
      /** Audience; by default the document has all routes */
      audience?: "customer";
    } = {}, options?: RequestOptions): Promise<t.GetContract> {
    return this.#core.call<t.GetContract>("GET", "/openapi.json", options, { query, retryable: true });
  }

  /**
   * Check readiness.
   *
   * Checks the database, its migrations, the encryption key, a live worker, and free disk space. With `for=api` no live worker is
   * needed. A load balancer should use it: without it, the load balancer would remove all API processes while no worker runs.
   */
  readiness(query: {
      /** `api`: ready even without a live worker */
      for?: string;
    } = {}, options?: RequestOptions): Promise<t.Readiness> {
    return this.#core.call<t.Readiness>("GET", "/readyz", options, { query, retryable: true });
  }
}

export class TeamResource {
  readonly #core: Core;
  readonly invites: TeamInvitesResource;
  readonly members: TeamMembersResource;
  readonly owners: TeamOwnersResource;

  constructor(core: Core) {
    this.#core = core;
    this.invites = new TeamInvitesResource(core);
    this.members = new TeamMembersResource(core);
    this.owners = new TeamOwnersResource(core);
  }
}

export class TeamsResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List teams.
   *
   * Returns the team that the caller owns; every account owns one.
   */
  list(options?: RequestOptions): Pager<t.Team> {
    return this.#core.page<t.Team>("/v1/teams", options, { retryable: true });
  }

  /** Rename a team. */
  update(teamId: string, body: t.UpdateTeam, options?: RequestOptions): Promise<t.UpdatedTeam> {
    return this.#core.call<t.UpdatedTeam>("PATCH", `/v1/teams/${e(teamId)}`, options, { body, retryable: true });
  }
}

export class UsageResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Get the usage of the current month.
   *
   * Returns the usage of the UTC calendar month so far. Live sessions are counted up to now.
   */
  get(options?: RequestOptions): Promise<t.UsageSummary> {
    return this.#core.call<t.UsageSummary>("GET", "/v1/usage", options, { retryable: true });
  }

  /**
   * Get usage by API key, archetype or label.
   *
   * Returns the usage of the last complete UTC days, up to yesterday, by a property of the sessions.
   */
  breakdown(query: {
      /** Property of the sessions */
      by: t.UsageDimension;
      /** Number of days, 30 by default */
      days?: number;
    }, options?: RequestOptions): Promise<t.UsageBreakdown> {
    return this.#core.call<t.UsageBreakdown>("GET", "/v1/usage/breakdown", options, { query, retryable: true });
  }

  /**
   * Get usage by day.
   *
   * Returns the usage of the last complete UTC days, up to yesterday.
   */
  series(query: {
      /** Number of days, 30 by default */
      days?: number;
    } = {}, options?: RequestOptions): Promise<t.UsageSeries> {
    return this.#core.call<t.UsageSeries>("GET", "/v1/usage/series", options, { query, retryable: true });
  }
}

export class WebhookDeliveriesResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List the deliveries of an account.
   *
   * Returns the deliveries to all endpoints, newest first, including deleted endpoints.
   */
  list(query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
      /** Filter by status */
      status?: t.WebhookDeliveryStatus;
      /** Filter by endpoint */
      endpoint_id?: string;
      /** Filter by event type */
      event_type?: t.EventType;
      /** Only entries created at this time or later */
      created_after?: string;
      /** Only entries created before this time */
      created_before?: string;
    } = {}, options?: RequestOptions): Pager<t.WebhookDelivery> {
    return this.#core.page<t.WebhookDelivery>("/v1/webhook-deliveries", options, { query, retryable: true });
  }

  /** Get a webhook delivery. */
  get(deliveryId: string, options?: RequestOptions): Promise<t.WebhookDeliveryDetail> {
    return this.#core.call<t.WebhookDeliveryDetail>("GET", `/v1/webhook-deliveries/${e(deliveryId)}`, options, { retryable: true });
  }

  /**
   * Replay a webhook delivery.
   *
   * Sends the same event to the same endpoint again, as a new delivery. The original delivery must have ended.
   */
  replay(deliveryId: string, options?: RequestOptions): Promise<t.SentDelivery> {
    return this.#core.call<t.SentDelivery>("POST", `/v1/webhook-deliveries/${e(deliveryId)}/replay`, options);
  }
}

export class WebhooksResource {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * List webhook endpoints.
   *
   * Returns all endpoints except deleted ones, newest first.
   */
  list(options?: RequestOptions): Pager<t.WebhookEndpoint> {
    return this.#core.page<t.WebhookEndpoint>("/v1/webhooks", options, { retryable: true });
  }

  /**
   * Create a webhook endpoint.
   *
   * The endpoint receives events created after this call. An account has at most ten endpoints that are not disabled.
   */
  create(body: t.CreateWebhook, options?: RequestOptions): Promise<t.CreatedWebhook> {
    return this.#core.call<t.CreatedWebhook>("POST", "/v1/webhooks", options, { body });
  }

  /**
   * Get a webhook endpoint.
   *
   * Also returns a deleted endpoint.
   */
  get(webhookId: string, options?: RequestOptions): Promise<t.WebhookEndpoint> {
    return this.#core.call<t.WebhookEndpoint>("GET", `/v1/webhooks/${e(webhookId)}`, options, { retryable: true });
  }

  /**
   * Delete a webhook endpoint.
   *
   * Pending deliveries fail. Deleting a deleted endpoint has no effect.
   */
  delete(webhookId: string, options?: RequestOptions): Promise<void> {
    return this.#core.call<void>("DELETE", `/v1/webhooks/${e(webhookId)}`, options, { retryable: true });
  }

  /**
   * Update a webhook endpoint.
   *
   * Deliveries that are pending when an endpoint is paused are sent when it is active again. Events that occur during the pause
   * are not delivered.
   */
  update(webhookId: string, body: t.UpdateWebhook = {}, options?: RequestOptions): Promise<t.WebhookEndpoint> {
    return this.#core.call<t.WebhookEndpoint>("PATCH", `/v1/webhooks/${e(webhookId)}`, options, { body, retryable: true });
  }

  /** List the deliveries of a webhook endpoint. */
  listDeliveries(webhookId: string, query: {
      /** Maximum number of entries on the page; default 50 */
      limit?: number;
      /** `next_cursor` of the previous page; the filters must be the same */
      cursor?: string;
      /** Filter by status */
      status?: t.WebhookDeliveryStatus;
    } = {}, options?: RequestOptions): Pager<t.WebhookDelivery> {
    return this.#core.page<t.WebhookDelivery>(`/v1/webhooks/${e(webhookId)}/deliveries`, options, { query, retryable: true });
  }

  /**
   * Rotate the secret of a webhook endpoint.
   *
   * Deliveries are signed with both secrets for 24 hours, the new one first.
   */
  rotateSecret(webhookId: string, options?: RequestOptions): Promise<t.RotatedSecret> {
    return this.#core.call<t.RotatedSecret>("POST", `/v1/webhooks/${e(webhookId)}/rotate-secret`, options);
  }

  /**
   * Test a webhook endpoint.
   *
   * Sends a `test.ping` event, regardless of the subscribed event types.
   */
  test(webhookId: string, options?: RequestOptions): Promise<t.SentDelivery> {
    return this.#core.call<t.SentDelivery>("POST", `/v1/webhooks/${e(webhookId)}/test`, options);
  }
}

/** The resources of the API. */
export class Resources {
  readonly account: AccountResource;
  readonly agentSessions: AgentSessionsResource;
  readonly apiKeys: ApiKeysResource;
  readonly approvals: ApprovalsResource;
  readonly archetypes: ArchetypesResource;
  readonly auditLog: AuditLogResource;
  readonly auth: AuthResource;
  readonly billing: BillingResource;
  readonly deviceCodes: DeviceCodesResource;
  readonly mfa: MfaResource;
  readonly notifications: NotificationsResource;
  readonly oauth: OauthResource;
  readonly profiles: ProfilesResource;
  readonly proxies: ProxiesResource;
  readonly recipes: RecipesResource;
  readonly sessions: SessionsResource;
  readonly status: StatusResource;
  readonly system: SystemResource;
  readonly team: TeamResource;
  readonly teams: TeamsResource;
  readonly usage: UsageResource;
  readonly webhookDeliveries: WebhookDeliveriesResource;
  readonly webhooks: WebhooksResource;

  constructor(core: Core) {
    this.account = new AccountResource(core);
    this.agentSessions = new AgentSessionsResource(core);
    this.apiKeys = new ApiKeysResource(core);
    this.approvals = new ApprovalsResource(core);
    this.archetypes = new ArchetypesResource(core);
    this.auditLog = new AuditLogResource(core);
    this.auth = new AuthResource(core);
    this.billing = new BillingResource(core);
    this.deviceCodes = new DeviceCodesResource(core);
    this.mfa = new MfaResource(core);
    this.notifications = new NotificationsResource(core);
    this.oauth = new OauthResource(core);
    this.profiles = new ProfilesResource(core);
    this.proxies = new ProxiesResource(core);
    this.recipes = new RecipesResource(core);
    this.sessions = new SessionsResource(core);
    this.status = new StatusResource(core);
    this.system = new SystemResource(core);
    this.team = new TeamResource(core);
    this.teams = new TeamsResource(core);
    this.usage = new UsageResource(core);
    this.webhookDeliveries = new WebhookDeliveriesResource(core);
    this.webhooks = new WebhooksResource(core);
  }
}
