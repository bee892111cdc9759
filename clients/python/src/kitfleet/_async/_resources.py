"""Generated from openapi.json by clients/generate/generate.py. Do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Optional, Sequence, Union, cast

from .._common import OMIT, Omit, given, quote

if TYPE_CHECKING:
    from .. import models, params
    from .._common import AsyncUploadBody, RequestOptions
    from ._content import AsyncContent
    from ._core import AsyncCore, AsyncOpening
    from ._handles import AsyncAgentSession, AsyncSession
    from ._pager import AsyncPager
    from ._stream import AsyncEventStream


class AsyncAccountAnthropicKeyResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def set(self, *, key: str, options: Optional[RequestOptions] = None) -> None:
        """Set the Anthropic key.

        Replaces the previous key. Agent sessions then use that provider's model at the key owner's expense.

        - `key`: The provider's API key. No response returns it
        """
        await self._core.call("PUT", "/v1/account/me/byok-anthropic-key", options, json=given({}, {'key': key}), retryable=True)

    async def remove(self, *, options: Optional[RequestOptions] = None) -> None:
        """Remove the Anthropic key.

        Succeeds when no key is stored.
        """
        await self._core.call("DELETE", "/v1/account/me/byok-anthropic-key", options, retryable=True)

    async def test(self, *, options: Optional[RequestOptions] = None) -> models.ProviderKeyTest:
        """Test the Anthropic key.

        Sends the smallest possible request to the provider, at the key owner's expense.
        """
        return cast("models.ProviderKeyTest", await self._core.call("POST", "/v1/account/me/byok-anthropic-key/test", options, model='ProviderKeyTest'))


class AsyncAccountEmailPreferencesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.EmailPreference]:
        """List e-mail preferences.

        Other kinds of mail have no opt-out.
        """
        return self._core.page("/v1/account/email-preferences", options, retryable=True, model='EmailPreference')

    async def set(self, *, opted_in: bool, event_type: params.OptionalEmail, options: Optional[RequestOptions] = None) -> models.EmailPreference:
        """Update an e-mail preference."""
        return cast("models.EmailPreference", await self._core.call("PUT", "/v1/account/email-preferences", options, json=given({}, {'event_type': event_type, 'opted_in': opted_in}), retryable=True, model='EmailPreference'))


class AsyncAccountIdentitiesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.LinkedIdentity]:
        """List linked identities."""
        return self._core.page("/v1/account/identities", options, retryable=True, model='LinkedIdentity')

    async def remove(self, identity_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Remove a linked identity.

        It can no longer sign in. The account owner can still sign in with a password or a mailed link.
        """
        await self._core.call("DELETE", f"/v1/account/identities/{quote(identity_id)}", options, retryable=True)


class AsyncAccountOpenaiKeyResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def set(self, *, key: str, options: Optional[RequestOptions] = None) -> None:
        """Set the OpenAI key.

        Replaces the previous key. Agent sessions then use that provider's model at the key owner's expense.

        - `key`: The provider's API key. No response returns it
        """
        await self._core.call("PUT", "/v1/account/me/byok-openai-key", options, json=given({}, {'key': key}), retryable=True)

    async def remove(self, *, options: Optional[RequestOptions] = None) -> None:
        """Remove the OpenAI key.

        Succeeds when no key is stored.
        """
        await self._core.call("DELETE", "/v1/account/me/byok-openai-key", options, retryable=True)

    async def test(self, *, options: Optional[RequestOptions] = None) -> models.ProviderKeyTest:
        """Test the OpenAI key.

        Sends the smallest possible request to the provider, at the key owner's expense.
        """
        return cast("models.ProviderKeyTest", await self._core.call("POST", "/v1/account/me/byok-openai-key/test", options, model='ProviderKeyTest'))


class AsyncAccountWebSessionsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.SignedInDevice]:
        """List signed-in devices."""
        return self._core.page("/v1/account/web-sessions", options, retryable=True, model='SignedInDevice')

    async def revoke_others(self, *, keep: str, options: Optional[RequestOptions] = None) -> models.RevokedWebSessions:
        """Sign out all other devices."""
        return cast("models.RevokedWebSessions", await self._core.call("DELETE", "/v1/account/web-sessions", options, query={'keep': keep}, retryable=True, model='RevokedWebSessions'))

    async def revoke(self, web_session_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Sign out a device."""
        await self._core.call("DELETE", f"/v1/account/web-sessions/{quote(web_session_id)}", options, retryable=True)


class AsyncAgentSessionsFilesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def create(self, agent_session_id: str, *, name: str, content: str, content_type: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.AgentFile:
        """Attach a file to an agent session.

        A message can then say `upload "NAME" into …`. The file exists as long as the browser. A later file with the same name replaces
        an earlier one.

        - `content`: Content of the file in base64, of at most 16 MiB
        - `content_type`: Media type. The page sees the one that a browser derives from the name
        - `name`: Name by which messages refer to the file, and which pages see. Of a path only the last part counts, and hidden characters are removed
        """
        return cast("models.AgentFile", await self._core.call("POST", f"/v1/agent-sessions/{quote(agent_session_id)}/files", options, json=given({'content_type': content_type}, {'content': content, 'name': name}), model='AgentFile'))


class AsyncBillingCryptoOrdersResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def create(self, *, product: params.PaidTier, pay_currency: Optional[str] = None, price_currency: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.CryptoOrder:
        """Buy a tier with a cryptocurrency.

        Returns the payment address and the amount. The account changes tier when the processor reports the payment, and changes back
        at the end of the period. A request repeated with the same `Idempotency-Key` never creates a second order, and the key does
        not expire. It receives the first response unchanged, regardless of its body, with `Idempotent-Replayed: 1`.

        - `pay_currency`: Currency of the payment, as the processor names it; default `btc`
        - `price_currency`: Currency of the price: `usd`
        """
        return cast("models.CryptoOrder", await self._core.call("POST", "/v1/billing/crypto-checkout", options, json=given({'pay_currency': pay_currency, 'price_currency': price_currency}, {'product': product}), model='CryptoOrder'))

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.CryptoOrder]:
        """List crypto orders."""
        return self._core.page("/v1/billing/crypto-orders", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='CryptoOrder')

    async def get(self, order_id: str, *, options: Optional[RequestOptions] = None) -> models.CryptoOrder:
        """Get a crypto order."""
        return cast("models.CryptoOrder", await self._core.call("GET", f"/v1/billing/crypto-orders/{quote(order_id)}", options, retryable=True, model='CryptoOrder'))


class AsyncOauthClientsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.OauthClient]:
        """List OAuth clients.

        Returns the account's clients, newest first.
        """
        return self._core.page("/v1/oauth/clients", options, retryable=True, model='OauthClient')

    async def create(self, *, scopes: Sequence[params.Scope], name: str, options: Optional[RequestOptions] = None) -> models.OauthClient:
        """Create an OAuth client.

        Returns the client's secret, once. The client exchanges it for access tokens at `POST /v1/oauth/token`.

        - `name`: Name of the client, 1 to 120 characters
        - `scopes`: Scopes of the credential; the caller can grant only scopes of their own credential
        """
        return cast("models.OauthClient", await self._core.call("POST", "/v1/oauth/clients", options, json=given({}, {'name': name, 'scopes': scopes}), model='OauthClient'))

    async def delete(self, oauth_client_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Delete an OAuth client.

        The client's tokens are revoked immediately. Deleting a deleted client has no effect.
        """
        await self._core.call("DELETE", f"/v1/oauth/clients/{quote(oauth_client_id)}", options, retryable=True)

    async def rotate_secret(self, oauth_client_id: str, *, options: Optional[RequestOptions] = None) -> models.RotatedClientSecret:
        """Rotate the secret of an OAuth client.

        The previous secret works for another 24 hours, or until the next rotation. Access tokens stay valid.
        """
        return cast("models.RotatedClientSecret", await self._core.call("POST", f"/v1/oauth/clients/{quote(oauth_client_id)}/rotate-secret", options, model='RotatedClientSecret'))


class AsyncProfilesSnapshotsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def delete(self, snapshot_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Delete a snapshot.

        Deletes the snapshot permanently.
        """
        await self._core.call("DELETE", f"/v1/profile-snapshots/{quote(snapshot_id)}", options, retryable=True)

    async def restore(self, snapshot_id: str, *, name: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.Profile:
        """Restore a snapshot.

        Creates a new profile from the snapshot. The snapshot's profile does not change.

        - `name`: Name; by default the source's name with an added word
        """
        return cast("models.Profile", await self._core.call("POST", f"/v1/profile-snapshots/{quote(snapshot_id)}/restore", options, json=given({'name': name}, {}), model='Profile'))

    def list(self, profile_id: str, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.ProfileSnapshot]:
        """List a profile's snapshots."""
        return self._core.page(f"/v1/profiles/{quote(profile_id)}/snapshots", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='ProfileSnapshot')

    async def create(self, profile_id: str, *, label: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.ProfileSnapshot:
        """Take a snapshot of a profile.

        Stores the current data of the profile. If a live session uses the profile, the snapshot contains the data that the session
        before it saved.

        - `label`: Free text
        """
        return cast("models.ProfileSnapshot", await self._core.call("POST", f"/v1/profiles/{quote(profile_id)}/snapshots", options, json=given({'label': label}, {}), model='ProfileSnapshot'))


class AsyncSessionsChallengesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def resolve(self, session_id: str, challenge_id: str, *, options: Optional[RequestOptions] = None) -> models.ResolvedChallenge:
        """Resolve a challenge.

        Resumes a session that a challenge pauses, even if the page still shows the challenge. The challenge is not reported again
        until the session shows another page. A challenge that has already ended is not changed.
        """
        return cast("models.ResolvedChallenge", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/challenges/{quote(challenge_id)}/resolve", options, retryable=True, model='ResolvedChallenge'))


class AsyncSessionsConsoleResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, session_id: str, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.ConsoleEntry]:
        """List console lines."""
        return self._core.page(f"/v1/sessions/{quote(session_id)}/console", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='ConsoleEntry')


class AsyncSessionsCookiesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, session_id: str, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.SessionCookie]:
        """List a session's cookies.

        Returns the cookies of all hosts, including those that scripts cannot read. Reading claims the session like any other operation.
        """
        return self._core.page(f"/v1/sessions/{quote(session_id)}/cookies", options, retryable=True, model='SessionCookie')

    async def set(self, session_id: str, *, cookies: Sequence[params.SessionCookieSet], options: Optional[RequestOptions] = None) -> None:
        """Set cookies of a session.

        Adds cookies, or replaces those with the same name, domain and path. Values are sealed on their way to the browser.

        - `cookies`: Cookies to set
        """
        await self._core.call("PUT", f"/v1/sessions/{quote(session_id)}/cookies", options, json=given({}, {'cookies': cookies}), retryable=True)

    async def delete(self, session_id: str, *, name: Optional[str] = None, domain: Optional[str] = None, path: Optional[str] = None, options: Optional[RequestOptions] = None) -> None:
        """Delete cookies of a session.

        Deletes the cookies that match all given parameters; without any, all cookies.
        """
        await self._core.call("DELETE", f"/v1/sessions/{quote(session_id)}/cookies", options, query={'name': name, 'domain': domain, 'path': path}, retryable=True)


class AsyncSessionsDownloadsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, session_id: str, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.Download]:
        """List downloads.

        Returns the files that the session's pages have downloaded, with those in progress. They exist as long as the session.
        """
        return self._core.page(f"/v1/sessions/{quote(session_id)}/downloads", options, retryable=True, model='Download')

    async def content(self, session_id: str, download_id: str, *, options: Optional[RequestOptions] = None) -> AsyncContent:
        """Get the content of a download.

        Streams the file. A download in progress is waited for, for up to 30 s.
        """
        return await self._core.content("GET", f"/v1/sessions/{quote(session_id)}/downloads/{quote(download_id)}/content", options, retryable=True)


class AsyncSessionsFramesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def get(self, session_id: str, seq: int, *, options: Optional[RequestOptions] = None) -> AsyncContent:
        """Get a picture of a recording."""
        return await self._core.content("GET", f"/v1/sessions/{quote(session_id)}/frames/{quote(seq)}", options, retryable=True)


class AsyncSessionsLiveLinksResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def follow(self, *, link: str, options: Optional[RequestOptions] = None) -> models.LiveTicket:
        """Exchange a live link for a ticket.

        Returns a new live-view ticket each time it is called. It needs no credential except the link.

        - `link`: Part of the link's address after the `#`
        """
        return cast("models.LiveTicket", await self._core.call("POST", "/v1/live-links/follow", options, json=given({}, {'link': link}), model='LiveTicket'))

    async def delete(self, live_link_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Delete a live link.

        Disconnects its viewers within 5 s.
        """
        await self._core.call("DELETE", f"/v1/live-links/{quote(live_link_id)}", options, retryable=True)

    def list(self, session_id: str, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.LiveLink]:
        """List the links to a session's live view.

        Returns the links that are still valid, without their addresses.
        """
        return self._core.page(f"/v1/sessions/{quote(session_id)}/live-links", options, retryable=True, model='LiveLink')

    async def create(self, session_id: str, *, expires_in: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.NewlyMadeLiveLink:
        """Create a live link.

        Anyone with the address can watch the browser without an account, but cannot control it. The link ends when the session ends,
        or when its creator loses access to the session.

        - `expires_in`: Validity in seconds; one hour by default
        """
        return cast("models.NewlyMadeLiveLink", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/live-links", options, json=given({'expires_in': expires_in}, {}), model='NewlyMadeLiveLink'))


class AsyncSessionsLiveTicketsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def create(self, session_id: str, *, client_id: Optional[str] = None, role: Optional[params.LiveRole] = None, options: Optional[RequestOptions] = None) -> models.LiveTicket:
        """Create a ticket for the live view.

        A viewer sees the browser. A controller can also send input while a person has control; it needs `write:sessions` instead.
        With `write:agents` and a `client_id` a controller can also take over an agent session in the live view and hand it back.

        - `client_id`: Name of the controller's client, recorded when it takes over an agent session
        """
        return cast("models.LiveTicket", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/live-tickets", options, json=given({'client_id': client_id, 'role': role}, {}), model='LiveTicket'))


class AsyncSessionsOperationsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, session_id: str, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.SessionOperation]:
        """List operations.

        Returns the operations of a session, newest first, for 7 days. It needs no recording.
        """
        return self._core.page(f"/v1/sessions/{quote(session_id)}/operations", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='SessionOperation')


class AsyncSessionsPagesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, session_id: str, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.SessionPage]:
        """List a session's pages.

        Returns the open pages, oldest first. A page that a link or a script opens is a page of its own and becomes the active one.
        Operations act on the active page. Listing claims the session like any other operation.
        """
        return self._core.page(f"/v1/sessions/{quote(session_id)}/pages", options, retryable=True, model='SessionPage')

    async def open(self, session_id: str, *, url: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.SessionPage:
        """Open a page.

        Opens a page, makes it the active one and loads the address, if there is one. A session has at most 8 pages; one more is a
        409. If the address cannot be reached (DNS, TLS, network), the request fails with 502 and the session is errored.

        - `url`: An http or https address; by default the page is blank
        """
        return cast("models.SessionPage", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/pages", options, json=given({'url': url}, {}), model='SessionPage'))

    async def close(self, session_id: str, page_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Close a page.

        If the page was the active one, its opener becomes active, or else the newest page. The last page cannot be closed.
        """
        await self._core.call("DELETE", f"/v1/sessions/{quote(session_id)}/pages/{quote(page_id)}", options, retryable=True)

    async def activate(self, session_id: str, page_id: str, *, options: Optional[RequestOptions] = None) -> models.SessionPage:
        """Activate a page.

        Makes the page the active one, which operations act on. The other pages keep running in the background.
        """
        return cast("models.SessionPage", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/pages/{quote(page_id)}/activate", options, retryable=True, model='SessionPage'))


class AsyncSessionsRecordingResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def har(self, session_id: str, *, options: Optional[RequestOptions] = None) -> Any:
        """Get the HAR file.

        Streams the requests of a recording as HAR 1.2, without bodies.
        """
        return await self._core.call("GET", f"/v1/sessions/{quote(session_id)}/har", options, retryable=True)

    async def delete(self, session_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Delete the recording.

        Removes it at once, and revokes the links to its trace. A live session is not recorded any more.
        """
        await self._core.call("DELETE", f"/v1/sessions/{quote(session_id)}/recording", options, retryable=True)

    async def trace(self, session_id: str, *, format: Optional[int] = None, options: Optional[RequestOptions] = None) -> AsyncContent:
        """Get the trace.

        Streams the recording as a ZIP file for Playwright's trace viewer: `npx playwright show-trace`, or a trace link at
        `https://trace.playwright.dev`. Viewers before 1.63 need `format=8`, and before 1.53 `format=7`.
        """
        return await self._core.content("GET", f"/v1/sessions/{quote(session_id)}/trace", options, query={'format': format}, retryable=True)


class AsyncSessionsRequestsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, session_id: str, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.RequestEntry]:
        """List requests.

        Returns the requests of the session's pages. Their bodies are not recorded.
        """
        return self._core.page(f"/v1/sessions/{quote(session_id)}/requests", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='RequestEntry')


class AsyncSessionsTimelineResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, session_id: str, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.TimelineEvent]:
        """Get the timeline.

        Returns the events of a recording, oldest first. With `Accept: text/event-stream` it sends them as server-sent events, with
        `event` (the type), `id` (the number) and JSON `data`, and new ones while the session lives. `Last-Event-ID` continues after an
        event. After the last event of an ended session comes `event: end`, and the stream closes. An account can have at most 16 streams
        of timelines at a time. Without a recording the list is empty.
        """
        return self._core.page(f"/v1/sessions/{quote(session_id)}/timeline", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='TimelineEvent')

    def stream(self, session_id: str, *, last_event_id: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncEventStream:
        """Get the timeline.

        Returns the events of a recording, oldest first. With `Accept: text/event-stream` it sends them as server-sent events, with
        `event` (the type), `id` (the number) and JSON `data`, and new ones while the session lives. `Last-Event-ID` continues after an
        event. After the last event of an ended session comes `event: end`, and the stream closes. An account can have at most 16 streams
        of timelines at a time. Without a recording the list is empty.
        """
        return self._core.events(f"/v1/sessions/{quote(session_id)}/timeline", options, query={'last_event_id': last_event_id}, retryable=True)


class AsyncSessionsTraceLinksResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def download(self, secret: str, *, format: Optional[int] = None, options: Optional[RequestOptions] = None) -> AsyncContent:
        """Download a trace by its link.

        Streams the trace as a ZIP file. It needs no credential except the link. `https://trace.playwright.dev` may read the answer.
        """
        return await self._core.content("GET", f"/traces/{quote(secret)}", options, query={'format': format}, retryable=True)

    def list(self, session_id: str, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.TraceLink]:
        """List the links to a session's trace.

        Returns the links that are still valid, without their addresses.
        """
        return self._core.page(f"/v1/sessions/{quote(session_id)}/trace-links", options, retryable=True, model='TraceLink')

    async def create(self, session_id: str, *, expires_in: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.NewTraceLinkBody:
        """Create a trace link.

        Anyone with the address can download the trace without an account. The link ends when it expires or is deleted, when the
        recording is deleted, or when its creator loses access to the session.

        - `expires_in`: Validity in seconds; one day by default
        """
        return cast("models.NewTraceLinkBody", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/trace-links", options, json=given({'expires_in': expires_in}, {}), model='NewTraceLinkBody'))

    async def delete(self, trace_link_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Delete a trace link."""
        await self._core.call("DELETE", f"/v1/trace-links/{quote(trace_link_id)}", options, retryable=True)


class AsyncTeamInvitesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.Invite]:
        """List invitations.

        Returns the pending invitations to the caller's team.
        """
        return self._core.page("/v1/team/invites", options, retryable=True, model='Invite')

    async def create(self, *, role: params.TeamRole, email: str, options: Optional[RequestOptions] = None) -> models.SentInvite:
        """Invite a team member.

        Mails a link that is valid for 7 days. An earlier pending invitation to the same address stops working.

        - `email`: E-mail address to invite; it does not need an account
        """
        return cast("models.SentInvite", await self._core.call("POST", "/v1/team/invites", options, json=given({}, {'email': email, 'role': role}), model='SentInvite'))

    async def accept(self, *, token: str, options: Optional[RequestOptions] = None) -> models.AcceptedInvite:
        """Accept an invitation.

        Adds the caller to the owner's team. The caller must have the e-mail address that was invited. A token works once.

        - `token`: Token of the mailed link
        """
        return cast("models.AcceptedInvite", await self._core.call("POST", "/v1/team/invites/accept", options, json=given({}, {'token': token}), retryable=True, model='AcceptedInvite'))

    async def revoke(self, invite_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Revoke an invitation.

        Its link stops working.
        """
        await self._core.call("DELETE", f"/v1/team/invites/{quote(invite_id)}", options, retryable=True)

    async def resend(self, invite_id: str, *, options: Optional[RequestOptions] = None) -> models.SentInvite:
        """Resend an invitation.

        Mails a new link that is valid for 7 days. The previous link stops working.
        """
        return cast("models.SentInvite", await self._core.call("POST", f"/v1/team/invites/{quote(invite_id)}/resend", options, model='SentInvite'))


class AsyncTeamMembersResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.Membership]:
        """List members.

        Returns the members of the caller's team.
        """
        return self._core.page("/v1/team/members", options, retryable=True, model='Membership')

    async def remove(self, membership_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Remove a member.

        Also revokes every active API key that the member created on the caller's account.
        """
        await self._core.call("DELETE", f"/v1/team/members/{quote(membership_id)}", options, retryable=True)

    async def update(self, membership_id: str, *, role: params.TeamRole, options: Optional[RequestOptions] = None) -> models.Membership:
        """Change the role of a member.

        API keys that the member created on the caller's account have the rights of the new role from their next use on.
        """
        return cast("models.Membership", await self._core.call("PATCH", f"/v1/team/members/{quote(membership_id)}", options, json=given({}, {'role': role}), retryable=True, model='Membership'))


class AsyncTeamOwnersResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.TeamOwner]:
        """List team owners.

        Returns the owners of the teams that the caller is a member of.
        """
        return self._core.page("/v1/team/owners", options, retryable=True, model='TeamOwner')


class AsyncAccountResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core
        self.email_preferences = AsyncAccountEmailPreferencesResource(core)
        self.identities = AsyncAccountIdentitiesResource(core)
        self.anthropic_key = AsyncAccountAnthropicKeyResource(core)
        self.openai_key = AsyncAccountOpenaiKeyResource(core)
        self.web_sessions = AsyncAccountWebSessionsResource(core)

    async def request_email_change(self, *, password: str, email: str, options: Optional[RequestOptions] = None) -> models.RequestedEmailChange:
        """Change the e-mail address.

        Mails a link to the new address. The account keeps its address until the link is used. If the new address has an account, it
        gets a mail that says so, and nothing changes. An account with a second factor requires a recent second-factor proof.

        - `email`: New e-mail address
        - `password`: Current password of the account
        """
        return cast("models.RequestedEmailChange", await self._core.call("POST", "/v1/account/email", options, json=given({}, {'email': email, 'password': password}), model='RequestedEmailChange'))

    async def confirm_email_change(self, *, token: str, options: Optional[RequestOptions] = None) -> models.ChangedEmail:
        """Confirm a new e-mail address.

        Takes the token of the mailed link. The previous address gets a mail about the change. Web sessions and API keys keep working.

        - `token`: Token of the mailed link
        """
        return cast("models.ChangedEmail", await self._core.call("POST", "/v1/account/email/confirm", options, json=given({}, {'token': token}), model='ChangedEmail'))

    async def get(self, *, options: Optional[RequestOptions] = None) -> models.OwnAccount:
        """Get the caller's account."""
        return cast("models.OwnAccount", await self._core.call("GET", "/v1/account/me", options, retryable=True, model='OwnAccount'))

    async def delete(self, *, confirm: str, options: Optional[RequestOptions] = None) -> None:
        """Delete the caller's account.

        Deletion is permanent. Live sessions are destroyed; API keys and web sessions are revoked. An account with a second factor
        requires a recent second-factor proof.

        - `confirm`: The literal `delete-account`
        """
        await self._core.call("DELETE", "/v1/account/me", options, json=given({}, {'confirm': confirm}), retryable=True)

    async def update(self, *, name: str, options: Optional[RequestOptions] = None) -> models.OwnAccount:
        """Update the caller's account.

        - `name`: Display name of the account owner
        """
        return cast("models.OwnAccount", await self._core.call("PATCH", "/v1/account/me", options, json=given({}, {'name': name}), retryable=True, model='OwnAccount'))

    async def set_bundled_llm_consent(self, *, consented: bool, options: Optional[RequestOptions] = None) -> models.BundledLlmConsent:
        """Set the consent to the deployment's model.

        The default is no consent.

        - `consented`: True when agent sessions may use the model that the deployment pays for. It applies to accounts without a provider key
        """
        return cast("models.BundledLlmConsent", await self._core.call("PUT", "/v1/account/me/bundled-llm-consent", options, json=given({}, {'consented': consented}), retryable=True, model='BundledLlmConsent'))

    async def set_password(self, *, new_password: str, current_password: str, options: Optional[RequestOptions] = None) -> None:
        """Change the password.

        Ends all other web sessions. An account without a password sets one with a password reset link. An account with a second
        factor requires a recent second-factor proof.

        - `current_password`: Current password of the account
        - `new_password`: New password, at least 12 characters
        """
        await self._core.call("POST", "/v1/account/password", options, json=given({}, {'current_password': current_password, 'new_password': new_password}))


class AsyncAgentSessionsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core
        self.files = AsyncAgentSessionsFilesResource(core)

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, status: Optional[params.AgentSessionStatus] = None, label: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[AsyncAgentSession]:
        """List agent sessions.

        Returns the account's agent sessions, newest first.
        """
        return self._core.page("/v1/agent-sessions", options, query={'limit': limit, 'cursor': cursor, 'status': status, 'label': label}, retryable=True, model='AgentSession')

    def create(self, *, archetype: Optional[str] = None, block: Optional[params.BlockedRequests] = None, color_scheme: Optional[params.ColorScheme] = None, detect_challenges: Optional[bool] = None, dialogs: Optional[params.DialogPolicy] = None, extra_headers: Optional[Sequence[params.ExtraHeader]] = None, geolocation: Optional[params.Geolocation] = None, label: Optional[str] = None, locale: Optional[str] = None, mode: Optional[params.AgentSessionMode] = None, offline: Optional[bool] = None, orientation: Optional[params.Orientation] = None, profile_id: Optional[str] = None, proxy_id: Optional[str] = None, record: Optional[params.RecordMode] = None, timezone: Optional[str] = None, token_budget: Optional[int] = None, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncAgentSession]:
        """Create an agent session.

        Opens a browser of the chosen archetype, as for a session, and returns when it is ready. The agent session occupies one of the
        account's concurrent slots until it is closed. A request with an `Idempotency-Key` can be repeated: it creates nothing more
        and returns the first response, even if that was an error.

        - `archetype`: Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status `launch`
        - `block`: Requests that the browser does not send
        - `color_scheme`: Color scheme that pages see; `light` by default
        - `detect_challenges`: False if challenges must not pause the session. By default they pause it, if the deployment detects challenges
        - `extra_headers`: Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them
        - `geolocation`: Position that pages of secure origins see; by default they are denied it
        - `label`: Free text
        - `locale`: Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session
        - `offline`: True to cut the browser off from the network
        - `orientation`: Orientation of the device; `portrait` by default
        - `profile_id`: Profile that the browser starts from. A profile can have one live session at a time. Requires `write:profiles` in addition to `write:agents`
        - `proxy_id`: Saved proxy of the account. The browser sends all its traffic through it
        - `timezone`: Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the session, whose browser takes longer to open
        - `token_budget`: Maximum number of model tokens; 200,000 by default
        """
        return cast("AsyncOpening[AsyncAgentSession]", self._core.open("POST", "/v1/agent-sessions", options, json=given({'archetype': archetype, 'block': block, 'color_scheme': color_scheme, 'detect_challenges': detect_challenges, 'dialogs': dialogs, 'extra_headers': extra_headers, 'geolocation': geolocation, 'label': label, 'locale': locale, 'mode': mode, 'offline': offline, 'orientation': orientation, 'profile_id': profile_id, 'proxy_id': proxy_id, 'record': record, 'timezone': timezone, 'token_budget': token_budget}, {}), model='AgentSession'))

    def get(self, agent_session_id: str, *, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncAgentSession]:
        """Get an agent session."""
        return cast("AsyncOpening[AsyncAgentSession]", self._core.open("GET", f"/v1/agent-sessions/{quote(agent_session_id)}", options, retryable=True, model='AgentSession'))

    async def close(self, agent_session_id: str, *, purge: Optional[bool] = None, options: Optional[RequestOptions] = None) -> None:
        """Close an agent session.

        Destroys its driver session, which frees the slot immediately. A turn in progress ends without another step. Closing an agent
        session again has no effect. With `purge=true` the agent session is also deleted, with its transcript, its receipts and its
        idempotency key. It then no longer counts toward the account's quota. A purge fails with 409 while the last turn is still
        ending.
        """
        await self._core.call("DELETE", f"/v1/agent-sessions/{quote(agent_session_id)}", options, query={'purge': purge}, retryable=True)

    def cancel(self, agent_session_id: str, *, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncAgentSession]:
        """Cancel the turn in progress.

        The turn ends after its current step; its other steps are skipped. Fails with 409 while no turn is in progress.
        """
        return cast("AsyncOpening[AsyncAgentSession]", self._core.open("POST", f"/v1/agent-sessions/{quote(agent_session_id)}/cancel", options, model='AgentSession'))

    def hand_back(self, agent_session_id: str, *, client_id: str, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncAgentSession]:
        """Hand back to the AI.

        - `client_id`: Name of the client; it identifies the client that has control
        """
        return cast("AsyncOpening[AsyncAgentSession]", self._core.open("POST", f"/v1/agent-sessions/{quote(agent_session_id)}/handback", options, json=given({}, {'client_id': client_id}), model='AgentSession'))

    def heartbeat(self, agent_session_id: str, *, client_id: str, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncAgentSession]:
        """Keep control.

        Renews the client's control. A client in control must call this more often than every 30 s.

        - `client_id`: Name of the client; it identifies the client that has control
        """
        return cast("AsyncOpening[AsyncAgentSession]", self._core.open("POST", f"/v1/agent-sessions/{quote(agent_session_id)}/heartbeat", options, json=given({}, {'client_id': client_id}), model='AgentSession'))

    async def livekit_token(self, agent_session_id: str, *, role: params.LiveRole, options: Optional[RequestOptions] = None) -> models.LivekitToken:
        """Get a LiveKit token.

        Returns a token for the room that shows the agent session by video. Fails with 503 if the deployment has no machine that shows
        sessions.
        """
        return cast("models.LivekitToken", await self._core.call("GET", f"/v1/agent-sessions/{quote(agent_session_id)}/livekit-token", options, query={'role': role}, retryable=True, model='LivekitToken'))

    async def send_message(self, agent_session_id: str, *, message: str, approvals: Optional[Sequence[str]] = None, options: Optional[RequestOptions] = None) -> models.AgentTurn:
        """Send a message.

        Interprets the message and performs its steps one by one. A step that submits data is performed only after its ID is in
        `approvals` of the next message. An agent session processes one message at a time. If the client disconnects, the transcript
        shows the outcome. A message with an `Idempotency-Key` can be repeated: no step is performed twice, and the first response is
        returned.

        - `approvals`: IDs of the intents that this message approves. The plan that they belong to then continues
        - `message`: Instructions in natural language
        """
        return cast("models.AgentTurn", await self._core.call("POST", f"/v1/agent-sessions/{quote(agent_session_id)}/message", options, json=given({'approvals': approvals}, {'message': message}), slow=True, model='AgentTurn'))

    def set_mode(self, agent_session_id: str, *, mode: params.AgentSessionMode, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncAgentSession]:
        """Change the mode.

        Fails while a person has control in pair mode. Setting the current mode again changes nothing.
        """
        return cast("AsyncOpening[AsyncAgentSession]", self._core.open("POST", f"/v1/agent-sessions/{quote(agent_session_id)}/mode", options, json=given({}, {'mode': mode}), model='AgentSession'))

    async def recipe_suggestion(self, agent_session_id: str, *, options: Optional[RequestOptions] = None) -> models.RecipeSuggestion:
        """Suggest a recipe.

        Returns a label and a description for a recipe of the agent session in its current state. It creates nothing, and the same
        steps always produce the same suggestion.
        """
        return cast("models.RecipeSuggestion", await self._core.call("GET", f"/v1/agent-sessions/{quote(agent_session_id)}/recipe-suggestion", options, retryable=True, model='RecipeSuggestion'))

    def decline(self, agent_session_id: str, step_id: str, *, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncAgentSession]:
        """Decline a step that waits for an approval.

        Ends the plan of the step: the step and those after it are skipped. Returns the agent session. Fails with 409 if the step does
        not wait for an approval, or while a turn is in progress.
        """
        return cast("AsyncOpening[AsyncAgentSession]", self._core.open("POST", f"/v1/agent-sessions/{quote(agent_session_id)}/steps/{quote(step_id)}/decline", options, retryable=True, model='AgentSession'))

    def take_over(self, agent_session_id: str, *, client_id: str, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncAgentSession]:
        """Take over from the AI.

        Gives control to the client, in pair mode. Messages are rejected until the client hands back or sends no heartbeat for 30 s. A
        turn in progress starts no further step. A takeover by the client that already has control changes nothing.

        - `client_id`: Name of the client; it identifies the client that has control
        """
        return cast("AsyncOpening[AsyncAgentSession]", self._core.open("POST", f"/v1/agent-sessions/{quote(agent_session_id)}/takeover", options, json=given({}, {'client_id': client_id}), model='AgentSession'))

    def transcript(self, agent_session_id: str, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.AgentTranscriptEntry]:
        """Read a transcript.

        Returns the messages of the agent session and the replies, oldest first. Texts to type and the content of captures are
        omitted.
        """
        return self._core.page(f"/v1/agent-sessions/{quote(agent_session_id)}/transcript", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='AgentTranscriptEntry')


class AsyncApiKeysResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.ApiKey]:
        """List API keys.

        Includes revoked and expired keys.
        """
        return self._core.page("/v1/api-keys", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='ApiKey')

    async def create(self, *, scopes: Sequence[params.Scope], name: str, expires_at: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.MintedKey:
        """Create an API key.

        - `expires_at`: Time the key expires (RFC 3339); a key without it does not expire
        - `name`: Name of the key
        - `scopes`: Scopes of the credential; the caller can grant only scopes of their own credential
        """
        return cast("models.MintedKey", await self._core.call("POST", "/v1/api-keys", options, json=given({'expires_at': expires_at}, {'name': name, 'scopes': scopes}), model='MintedKey'))

    async def get(self, api_key_id: str, *, options: Optional[RequestOptions] = None) -> models.ApiKey:
        """Get an API key."""
        return cast("models.ApiKey", await self._core.call("GET", f"/v1/api-keys/{quote(api_key_id)}", options, retryable=True, model='ApiKey'))

    async def revoke(self, api_key_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Revoke an API key.

        The next request with the key fails. Revoking a revoked key has no effect.
        """
        await self._core.call("DELETE", f"/v1/api-keys/{quote(api_key_id)}", options, retryable=True)

    async def update(self, api_key_id: str, *, name: str, options: Optional[RequestOptions] = None) -> models.ApiKey:
        """Rename an API key.

        Revoked and expired keys can be renamed, too.

        - `name`: Name of the key
        """
        return cast("models.ApiKey", await self._core.call("PATCH", f"/v1/api-keys/{quote(api_key_id)}", options, json=given({}, {'name': name}), retryable=True, model='ApiKey'))

    async def rotate(self, api_key_id: str, *, options: Optional[RequestOptions] = None) -> models.MintedKey:
        """Rotate an API key.

        Creates a successor; the rotated key keeps working for 24 hours. A key has one successor: to rotate again, rotate the
        successor.
        """
        return cast("models.MintedKey", await self._core.call("POST", f"/v1/api-keys/{quote(api_key_id)}/rotate", options, retryable=True, model='MintedKey'))


class AsyncApprovalsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.WaitingApproval]:
        """List steps that wait for an approval.

        Returns the steps of all active agent sessions of the account, newest first. Texts to type are omitted.
        """
        return self._core.page("/v1/account/approvals", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='WaitingApproval')


class AsyncArchetypesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.Archetype]:
        """List archetypes.

        Returns every device that a session can emulate. No credential is needed.
        """
        return self._core.page("/v1/archetypes", options, retryable=True, model='Archetype')


class AsyncAuditLogResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, action: Optional[str] = None, actor_account_id: Optional[str] = None, target_resource_id: Optional[str] = None, created_after: Optional[str] = None, created_before: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.AuditEntry]:
        """List the audit log.

        Returns the newest entries first. Entries cannot be changed or deleted.
        """
        return self._core.page("/v1/account/audit-log", options, query={'limit': limit, 'cursor': cursor, 'action': action, 'actor_account_id': actor_account_id, 'target_resource_id': target_resource_id, 'created_after': created_after, 'created_before': created_before}, retryable=True, model='AuditEntry')

    async def export(self, *, options: Optional[RequestOptions] = None) -> models.AuditExport:
        """Export the audit log.

        Returns the newest 10,000 entries as a file, newest first. A truncated response is not a complete export. In CSV, an
        apostrophe precedes a cell that a spreadsheet would evaluate as a formula; `payload` is always a JSON object.
        """
        return cast("models.AuditExport", await self._core.call("GET", "/v1/account/audit-log/export", options, query={'format': 'json'}, retryable=True, model='AuditExport'))

    async def export_text(self, *, format: params.AuditExportFormat, options: Optional[RequestOptions] = None) -> str:
        """Export the audit log.

        Returns the newest 10,000 entries as a file, newest first. A truncated response is not a complete export. In CSV, an
        apostrophe precedes a cell that a spreadsheet would evaluate as a formula; `payload` is always a JSON object.
        """
        return await self._core.text("GET", "/v1/account/audit-log/export", options, query={'format': format}, retryable=True)


class AsyncAuthResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def log_in(self, *, password: str, email: str, options: Optional[RequestOptions] = None) -> models.SignInResult:
        """Log in.

        Takes the e-mail address and the password. An account with a second factor receives a challenge instead of a session.

        - `email`: E-mail address of the account
        - `password`: Password of the account
        """
        return cast("models.SignInResult", await self._core.call("POST", "/v1/auth/login", options, json=given({}, {'email': email, 'password': password}), model='SignInResult'))

    async def log_out(self, *, token: str, options: Optional[RequestOptions] = None) -> models.LoggedOut:
        """Log out.

        Revokes the token. Succeeds when it was already invalid.

        - `token`: Token of the web session
        """
        return cast("models.LoggedOut", await self._core.call("POST", "/v1/auth/logout", options, json=given({}, {'token': token}), retryable=True, model='LoggedOut'))

    async def consume_magic_link(self, *, token: str, options: Optional[RequestOptions] = None) -> models.SignInResult:
        """Sign in with a link.

        - `token`: Token of the mailed link
        """
        return cast("models.SignInResult", await self._core.call("POST", "/v1/auth/magic-link/consume", options, json=given({}, {'token': token}), retryable=True, model='SignInResult'))

    async def request_magic_link(self, *, email: str, options: Optional[RequestOptions] = None) -> models.SentEmail:
        """Mail a sign-in link.

        The response is the same for every address.

        - `email`: E-mail address to write to
        """
        return cast("models.SentEmail", await self._core.call("POST", "/v1/auth/magic-link/request", options, json=given({}, {'email': email}), model='SentEmail'))

    async def meet_mfa_challenge(self, *, challenge_token: str, code: Optional[str] = None, recovery_code: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.ChallengeMet:
        """Complete a login challenge.

        Takes a code of the authenticator app or a recovery code, and must come from the IP address of the login. A wrong code does
        not use up the challenge.

        - `challenge_token`: Token of the login response
        - `code`: Six-digit code of the authenticator app. Send either this or `recovery_code`
        - `recovery_code`: Recovery code, with or without the hyphen. Send either this or `code`
        """
        return cast("models.ChallengeMet", await self._core.call("POST", "/v1/auth/mfa/challenge", options, json=given({'code': code, 'recovery_code': recovery_code}, {'challenge_token': challenge_token}), retryable=True, model='ChallengeMet'))

    async def step_up(self, *, code: str, options: Optional[RequestOptions] = None) -> models.SteppedUp:
        """Step up a web session.

        Proves the second factor again, for operations that require a recent proof. The web session keeps its token.

        - `code`: Six-digit code of the authenticator app, or a recovery code
        """
        return cast("models.SteppedUp", await self._core.call("POST", "/v1/auth/mfa/step-up", options, json=given({}, {'code': code}), retryable=True, model='SteppedUp'))

    async def confirm_oauth_sign_in(self, *, token: str, options: Optional[RequestOptions] = None) -> models.SignInResult:
        """Confirm a new sign-in method.

        Links the identity provider to the account with the token of the mailed link, and signs in.

        - `token`: Token of the mailed link
        """
        return cast("models.SignInResult", await self._core.call("POST", "/v1/auth/oauth/confirm", options, json=given({}, {'token': token}), retryable=True, model='SignInResult'))

    async def finish_oauth_sign_in(self, provider: str, *, state: str, code: Optional[str] = None, error: Optional[str] = None, options: Optional[RequestOptions] = None) -> Union[models.SignInResult, models.ConfirmationRequired]:
        """Complete a sign-in at an identity provider.

        Signs in to the linked account, or creates one for a verified address. If the address already has an account, a mail asks its
        owner to confirm the new sign-in method; no session is created. A browser, which accepts `text/html`, receives a page that
        repeats the request and shows the result.
        """
        return cast("Union[models.SignInResult, models.ConfirmationRequired]", await self._core.call("GET", f"/v1/auth/oauth/{quote(provider)}/callback", options, query={'state': state, 'code': code, 'error': error}, model='SignInResult|ConfirmationRequired'))

    async def start_oauth_sign_in(self, provider: str, *, options: Optional[RequestOptions] = None) -> str:
        """Start a sign-in at an identity provider.

        Redirects the browser to the provider. The provider must redirect it back to the callback within ten minutes.
        """
        return await self._core.location("GET", f"/v1/auth/oauth/{quote(provider)}/start", options, retryable=True)

    async def confirm_password_reset(self, *, token: str, new_password: str, options: Optional[RequestOptions] = None) -> models.SignInResult:
        """Reset the password.

        Sets a new password, ends all web sessions of the account, and signs in.

        - `new_password`: New password, at least 12 characters
        - `token`: Token of the mailed link
        """
        return cast("models.SignInResult", await self._core.call("POST", "/v1/auth/password-reset/confirm", options, json=given({}, {'new_password': new_password, 'token': token}), retryable=True, model='SignInResult'))

    async def request_password_reset(self, *, email: str, options: Optional[RequestOptions] = None) -> models.SentEmail:
        """Mail a password reset link.

        The response is the same for every address.

        - `email`: E-mail address to write to
        """
        return cast("models.SentEmail", await self._core.call("POST", "/v1/auth/password-reset/request", options, json=given({}, {'email': email}), model='SentEmail'))

    async def refresh(self, *, token: str, options: Optional[RequestOptions] = None) -> models.WebSession:
        """Refresh a web session.

        Returns a new token with a new lifetime; the previous token stops working.

        - `token`: Token of the web session
        """
        return cast("models.WebSession", await self._core.call("POST", "/v1/auth/refresh", options, json=given({}, {'token': token}), retryable=True, model='WebSession'))

    async def resend_verification(self, *, email: str, options: Optional[RequestOptions] = None) -> models.SentEmail:
        """Resend the verification link.

        The previous link stops working. A link requested from another network than the sign-up removes the sign-up password when it
        is followed. The response is the same for every address.

        - `email`: E-mail address to write to
        """
        return cast("models.SentEmail", await self._core.call("POST", "/v1/auth/resend-verification", options, json=given({}, {'email': email}), model='SentEmail'))

    async def sign_up(self, *, password: str, name: str, email: str, options: Optional[RequestOptions] = None) -> models.SignedUp:
        """Sign up.

        Creates an account and mails a link that verifies its address. The account cannot log in before the address is verified.

        - `email`: E-mail address of the account
        - `name`: Display name of the account owner
        - `password`: Password, at least 12 characters
        """
        return cast("models.SignedUp", await self._core.call("POST", "/v1/auth/signup", options, json=given({}, {'email': email, 'name': name, 'password': password}), retryable=True, model='SignedUp'))

    async def verify_email(self, *, token: str, options: Optional[RequestOptions] = None) -> models.SignInResult:
        """Verify an e-mail address.

        Takes the token of the mailed link, and signs in. A resent link keeps the sign-up password on two conditions: it was requested
        from the network of the sign-up, and the original link would still be valid. Otherwise the password is removed, and the
        response has a `password_reset_token` to set a new one.

        - `token`: Token of the mailed link
        """
        return cast("models.SignInResult", await self._core.call("POST", "/v1/auth/verify-email", options, json=given({}, {'token': token}), retryable=True, model='SignInResult'))


class AsyncBillingResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core
        self.crypto_orders = AsyncBillingCryptoOrdersResource(core)

    async def create_checkout_session(self, *, tier: params.PaidTier, success_url: str, cancel_url: str, options: Optional[RequestOptions] = None) -> models.CheckoutSession:
        """Buy a tier by card.

        Returns a payment page of the card provider. The account changes tier when the provider reports that the subscription was
        paid. A request repeated with the same `Idempotency-Key` does not begin a second purchase: the key is passed on to the
        provider.

        - `cancel_url`: URL the provider redirects to when the purchase is cancelled; http or https
        - `success_url`: URL the provider redirects to after payment; http or https
        """
        return cast("models.CheckoutSession", await self._core.call("POST", "/v1/billing/checkout-session", options, json=given({}, {'cancel_url': cancel_url, 'success_url': success_url, 'tier': tier}), model='CheckoutSession'))

    def list_plans(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.Plan]:
        """List plans.

        Returns all tiers with their prices and limits. The free tier has no price and cannot be bought.
        """
        return self._core.page("/v1/billing/plans", options, retryable=True, model='Plan')

    async def create_portal_session(self, *, return_url: str, options: Optional[RequestOptions] = None) -> models.PortalSession:
        """Open the billing portal.

        Returns a page of the card provider with the account's invoices, cards and subscriptions. An account that has never bought by
        card gets 404.

        - `return_url`: URL of the portal's return link; http or https
        """
        return cast("models.PortalSession", await self._core.call("POST", "/v1/billing/portal-session", options, json=given({}, {'return_url': return_url}), model='PortalSession'))

    async def subscription(self, *, options: Optional[RequestOptions] = None) -> models.BillingSubscription:
        """Get the subscription.

        Returns the tier of the account and the status of its subscription.
        """
        return cast("models.BillingSubscription", await self._core.call("GET", "/v1/billing/subscription", options, retryable=True, model='BillingSubscription'))


class AsyncDeviceCodesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def bind(self, *, user_code: str, state: str, scopes: Optional[Sequence[params.Scope]] = None, options: Optional[RequestOptions] = None) -> models.BoundDevice:
        """Authorize an app.

        Creates an API key on the caller's account. The app must collect it within two minutes.

        - `scopes`: Scopes of the credential; the caller can grant only scopes of their own credential
        - `state`: Nonce of the app
        - `user_code`: Code that the app shows
        """
        return cast("models.BoundDevice", await self._core.call("POST", "/v1/auth/cli-authorize/bind-device-code", options, json=given({'scopes': scopes}, {'state': state, 'user_code': user_code}), retryable=True, model='BoundDevice'))

    async def exchange(self, *, state: str, code: str, options: Optional[RequestOptions] = None) -> models.DeviceExchange:
        """Exchange a device code for an API key.

        - `code`: `code` of the device code response
        - `state`: Nonce of the app
        """
        return cast("models.DeviceExchange", await self._core.call("POST", "/v1/auth/cli-authorize/exchange", options, json=given({}, {'code': code, 'state': state}), retryable=True, model='DeviceExchange'))

    async def initiate(self, *, state: str, client_label: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.InitiatedDevice:
        """Request a device code.

        The app shows `user_code`, opens `browser_url`, and polls the exchange every two seconds.

        - `client_label`: Name of the app
        - `state`: Random nonce chosen by the app
        """
        return cast("models.InitiatedDevice", await self._core.call("POST", "/v1/auth/cli-authorize/initiate", options, json=given({'client_label': client_label}, {'state': state}), retryable=True, model='InitiatedDevice'))

    async def get(self, user_code: str, *, options: Optional[RequestOptions] = None) -> models.WaitingDevice:
        """Get a waiting app.

        Lets a person check the app before authorizing it.
        """
        return cast("models.WaitingDevice", await self._core.call("GET", f"/v1/auth/cli-authorize/{quote(user_code)}", options, retryable=True, model='WaitingDevice'))


class AsyncMfaResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def get(self, *, options: Optional[RequestOptions] = None) -> models.MfaStatus:
        """Get the status of the second factor."""
        return cast("models.MfaStatus", await self._core.call("GET", "/v1/account/mfa", options, retryable=True, model='MfaStatus'))

    async def delete(self, *, confirm: str, options: Optional[RequestOptions] = None) -> None:
        """Disable the second factor.

        Requires a recent second-factor proof. Has no effect without a second factor.

        - `confirm`: The literal `disable-mfa`
        """
        await self._core.call("DELETE", "/v1/account/mfa", options, json=given({}, {'confirm': confirm}), retryable=True)

    async def disable(self, *, confirm: str, options: Optional[RequestOptions] = None) -> None:
        """Disable the second factor by POST.

        Same as `DELETE /v1/account/mfa`, for clients that cannot send a body with a DELETE request.

        - `confirm`: The literal `disable-mfa`
        """
        await self._core.call("POST", "/v1/account/mfa/disable", options, json=given({}, {'confirm': confirm}), retryable=True)

    async def enroll(self, *, options: Optional[RequestOptions] = None) -> models.MfaEnrollment:
        """Start enrolling a second factor.

        The second factor takes effect when a code is verified. Starting again replaces the secret.
        """
        return cast("models.MfaEnrollment", await self._core.call("POST", "/v1/account/mfa/enroll", options, retryable=True, model='MfaEnrollment'))

    async def regenerate_recovery_codes(self, *, options: Optional[RequestOptions] = None) -> models.RecoveryCodes:
        """Replace the recovery codes.

        The previous recovery codes stop working. Requires a recent second-factor proof.
        """
        return cast("models.RecoveryCodes", await self._core.call("POST", "/v1/account/mfa/recovery-codes/regenerate", options, retryable=True, model='RecoveryCodes'))

    async def verify(self, *, code: str, options: Optional[RequestOptions] = None) -> models.RecoveryCodes:
        """Complete the enrollment.

        Takes a code of the authenticator app. A wrong code leaves the enrollment pending.

        - `code`: Six-digit code of the authenticator app
        """
        return cast("models.RecoveryCodes", await self._core.call("POST", "/v1/account/mfa/verify", options, json=given({}, {'code': code}), retryable=True, model='RecoveryCodes'))


class AsyncNotificationsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.Notification]:
        """List notifications.

        Returns the account's notifications of the last 24 hours, newest first, in the format of the stream. Events of operations are
        recorded only while notifications are in use: from the first request for the account's notifications until 24 hours have
        passed without one.
        """
        return self._core.page("/v1/account/notifications", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='Notification')

    def stream(self, *, last_event_id: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncEventStream:
        """Stream notifications.

        Sends the account's notifications as they happen, as server-sent events with `id`, `event` and JSON `data`. An idle stream
        sends a comment every 15 s. If `Last-Event-ID` contains the last `id`, the stream continues after that event without a gap. If
        the events after it are no longer stored, the first event is `reset`. An account can have at most 16 streams at a time.
        """
        return self._core.events("/v1/account/notifications/stream", options, query={'last_event_id': last_event_id}, retryable=True)


class AsyncOauthResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core
        self.clients = AsyncOauthClientsResource(core)

    async def create_token(self, *, grant_type: str, client_id: Optional[str] = None, client_secret: Optional[str] = None, scope: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.TokenAnswer:
        """Get an access token.

        Implements the client credentials grant (RFC 6749, section 4.4). The client authenticates by HTTP Basic or by body parameters,
        not by both.

        - `grant_type`: The literal `client_credentials`
        - `scope`: Space-separated scopes; all scopes of the client when absent
        """
        return cast("models.TokenAnswer", await self._core.call("POST", "/v1/oauth/token", options, form=given({'client_id': client_id, 'client_secret': client_secret, 'scope': scope}, {'grant_type': grant_type}), retryable=True, model='TokenAnswer'))


class AsyncProfilesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core
        self.snapshots = AsyncProfilesSnapshotsResource(core)

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, deleted: Optional[bool] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.Profile]:
        """List profiles.

        Returns the profiles outside the recycle bin, or those in it.
        """
        return self._core.page("/v1/profiles", options, query={'limit': limit, 'cursor': cursor, 'deleted': deleted}, retryable=True, model='Profile')

    async def create(self, *, name: str, archetype: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.Profile:
        """Create a profile.

        Creates an empty profile; a session that uses it fills it when the session ends. The account's tier limits the number of
        profiles. Profiles in the recycle bin count.

        - `archetype`: Archetype ID from `GET /v1/archetypes`. Default: the one with status `launch`
        - `name`: Name; it need not be unique
        """
        return cast("models.Profile", await self._core.call("POST", "/v1/profiles", options, json=given({'archetype': archetype}, {'name': name}), model='Profile'))

    async def import_archive(self, body: AsyncUploadBody, *, options: Optional[RequestOptions] = None) -> models.Profile:
        """Import a profile.

        Creates a profile from a document of `GET /v1/profiles/{id}/export`, of at most 300 MiB. The whole document is validated
        before anything is stored. Documents of version 1, which contained browser files, are rejected.
        """
        return cast("models.Profile", await self._core.call("POST", "/v1/profiles/import", options, content=body, media='application/vnd.kitfleet.profile+json', model='Profile'))

    async def get(self, profile_id: str, *, options: Optional[RequestOptions] = None) -> models.Profile:
        """Get a profile."""
        return cast("models.Profile", await self._core.call("GET", f"/v1/profiles/{quote(profile_id)}", options, retryable=True, model='Profile'))

    async def delete(self, profile_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Delete a profile.

        Moves the profile to the recycle bin, from which it can be restored for 30 days. It counts toward the tier's limit until it is
        purged.
        """
        await self._core.call("DELETE", f"/v1/profiles/{quote(profile_id)}", options, retryable=True)

    async def update(self, profile_id: str, *, name: str, options: Optional[RequestOptions] = None) -> models.Profile:
        """Rename a profile.

        - `name`: New name
        """
        return cast("models.Profile", await self._core.call("PATCH", f"/v1/profiles/{quote(profile_id)}", options, json=given({}, {'name': name}), retryable=True, model='Profile'))

    async def clone(self, profile_id: str, *, name: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.Profile:
        """Clone a profile.

        Creates an independent profile with the same data. If a live session uses the source, the clone gets the data that the session
        before it saved.

        - `name`: Name; by default the source's name with an added word
        """
        return cast("models.Profile", await self._core.call("POST", f"/v1/profiles/{quote(profile_id)}/clone", options, json=given({'name': name}, {}), model='Profile'))

    async def export_archive(self, profile_id: str, *, options: Optional[RequestOptions] = None) -> AsyncContent:
        """Export a profile.

        Returns a document that can be imported into any account. It contains the cookies and storage values in plain text. If a live
        session uses the profile, the document contains the data that the session before it saved. If the transfer breaks off, the
        document is incomplete.
        """
        return await self._core.content("GET", f"/v1/profiles/{quote(profile_id)}/export", options, retryable=True)

    def launch(self, profile_id: str, *, behavioral_profile: Optional[params.BehavioralProfile] = None, block: Optional[params.BlockedRequests] = None, color_scheme: Optional[params.ColorScheme] = None, detect_challenges: Optional[bool] = None, dialogs: Optional[params.DialogPolicy] = None, extra_headers: Optional[Sequence[params.ExtraHeader]] = None, geolocation: Optional[params.Geolocation] = None, label: Optional[str] = None, locale: Optional[str] = None, metadata: Optional[params.ProfileLaunchMetadata] = None, offline: Optional[bool] = None, orientation: Optional[params.Orientation] = None, purpose: Optional[str] = None, record: Optional[params.RecordMode] = None, timezone: Optional[str] = None, wait_timeout_ms: Optional[int] = None, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncSession]:
        """Launch a profile.

        Creates a session that starts from the profile's data, as `POST /v1/sessions` does with a `profile_id`. The session has the
        profile's archetype.

        - `block`: Requests that the browser does not send
        - `color_scheme`: Color scheme that pages see; `light` by default
        - `detect_challenges`: False if challenges must not pause the session. By default they pause it, if the deployment detects challenges
        - `extra_headers`: Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them
        - `geolocation`: Position that pages of secure origins see; by default they are denied it
        - `label`: Free text
        - `locale`: Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session
        - `offline`: True to cut the browser off from the network
        - `orientation`: Orientation of the device; `portrait` by default
        - `purpose`: Purpose: `production_customer`; other values are reserved
        - `timezone`: Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the session, whose browser takes longer to open
        - `wait_timeout_ms`: Maximum time in milliseconds to wait for a browser if all are taken. 0 does not wait; other values must be at least 100
        """
        return cast("AsyncOpening[AsyncSession]", self._core.open("POST", f"/v1/profiles/{quote(profile_id)}/launch", options, json=given({'behavioral_profile': behavioral_profile, 'block': block, 'color_scheme': color_scheme, 'detect_challenges': detect_challenges, 'dialogs': dialogs, 'extra_headers': extra_headers, 'geolocation': geolocation, 'label': label, 'locale': locale, 'metadata': metadata, 'offline': offline, 'orientation': orientation, 'purpose': purpose, 'record': record, 'timezone': timezone, 'wait_timeout_ms': wait_timeout_ms}, {}), model='Session'))

    async def purge(self, profile_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Purge a deleted profile.

        Deletes the profile and its snapshots permanently. It then no longer counts toward the tier's limit.
        """
        await self._core.call("DELETE", f"/v1/profiles/{quote(profile_id)}/purge", options, retryable=True)

    async def restore(self, profile_id: str, *, options: Optional[RequestOptions] = None) -> models.Profile:
        """Restore a deleted profile.

        Moves the profile and its snapshots out of the recycle bin.
        """
        return cast("models.Profile", await self._core.call("POST", f"/v1/profiles/{quote(profile_id)}/restore", options, retryable=True, model='Profile'))


class AsyncProxiesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.SavedProxy]:
        """List saved proxies.

        Returns the account's saved proxies, newest first.
        """
        return self._core.page("/v1/account/me/proxies", options, retryable=True, model='SavedProxy')

    async def create(self, *, scheme: params.ProxyScheme, label: str, config: Union[str, None] = None, host: Optional[str] = None, password: Union[str, None] = None, port: Optional[int] = None, username: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.SavedProxy:
        """Save a proxy.

        Saves an egress route for agent sessions: a `socks5` or `http` proxy at a `host` and `port`, or a `wireguard` or `openvpn`
        tunnel to the server in its `config`. Passwords and configurations are sealed and never returned.

        - `config`: Configuration of a tunnel: for `wireguard` the text of a wg-quick file (at most 16 KiB), for `openvpn` a client profile with inline certificates and keys (at most 64 KiB). On replacement, an absent configuration is kept
        - `host`: Host, for `socks5` and `http`: a name or a public address
        - `label`: Label; leading and trailing white space is removed
        - `password`: Password sent to the proxy, 1 to 255 bytes. On replacement, an absent password is kept, and null removes it
        - `port`: Port, for `socks5` and `http`
        - `username`: User name sent to the proxy, 1 to 255 bytes; for `http` without a colon
        """
        return cast("models.SavedProxy", await self._core.call("POST", "/v1/account/me/proxies", options, json=given({'config': config, 'host': host, 'password': password, 'port': port, 'username': username}, {'label': label, 'scheme': scheme}), model='SavedProxy'))

    async def get(self, proxy_id: str, *, options: Optional[RequestOptions] = None) -> models.SavedProxy:
        """Get a saved proxy."""
        return cast("models.SavedProxy", await self._core.call("GET", f"/v1/account/me/proxies/{quote(proxy_id)}", options, retryable=True, model='SavedProxy'))

    async def replace(self, proxy_id: str, *, scheme: params.ProxyScheme, label: str, config: Union[Union[str, None], Omit] = OMIT, host: Optional[str] = None, password: Union[Union[str, None], Omit] = OMIT, port: Optional[int] = None, username: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.SavedProxy:
        """Replace a saved proxy.

        Accepts the same body as its creation; `scheme` cannot change. An absent secret is kept, and `null` removes it. If the host,
        port or configuration changes, a stored password must be sent again. Sessions that already use the proxy keep the old
        settings.

        - `config`: Configuration of a tunnel: for `wireguard` the text of a wg-quick file (at most 16 KiB), for `openvpn` a client profile with inline certificates and keys (at most 64 KiB). On replacement, an absent configuration is kept
        - `host`: Host, for `socks5` and `http`: a name or a public address
        - `label`: Label; leading and trailing white space is removed
        - `password`: Password sent to the proxy, 1 to 255 bytes. On replacement, an absent password is kept, and null removes it
        - `port`: Port, for `socks5` and `http`
        - `username`: User name sent to the proxy, 1 to 255 bytes; for `http` without a colon
        """
        return cast("models.SavedProxy", await self._core.call("PUT", f"/v1/account/me/proxies/{quote(proxy_id)}", options, json=given({'host': host, 'port': port, 'username': username}, {'label': label, 'scheme': scheme, 'config': config, 'password': password}), retryable=True, model='SavedProxy'))

    async def delete(self, proxy_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Delete a saved proxy.

        Deletes the proxy and its secrets permanently. Fails while a live session uses the proxy.
        """
        await self._core.call("DELETE", f"/v1/account/me/proxies/{quote(proxy_id)}", options, retryable=True)

    async def check(self, proxy_id: str, *, options: Optional[RequestOptions] = None) -> models.ProxyCheck:
        """Check a saved proxy.

        A worker connects to the proxy and through it, as a session would, and reports the result within 20 s. An account can run one
        check at a time.
        """
        return cast("models.ProxyCheck", await self._core.call("POST", f"/v1/account/me/proxies/{quote(proxy_id)}/check", options, model='ProxyCheck'))


class AsyncRecipesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.Recipe]:
        """List recipes."""
        return self._core.page("/v1/recipes", options, query={'limit': limit, 'cursor': cursor}, retryable=True, model='Recipe')

    async def create(self, *, label: str, agent_session_id: str, description: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.Recipe:
        """Create a recipe.

        Records the steps of an agent session that were performed as parts of plans, in their order. A recipe never changes, whatever
        happens to the agent session.

        - `agent_session_id`: Agent session whose steps become the recipe. It must belong to the caller, or to an account whose team has the caller as admin
        - `description`: Description
        - `label`: Label; leading and trailing white space is removed
        """
        return cast("models.Recipe", await self._core.call("POST", "/v1/recipes", options, json=given({'description': description}, {'agent_session_id': agent_session_id, 'label': label}), model='Recipe'))

    async def get(self, recipe_id: str, *, options: Optional[RequestOptions] = None) -> models.RecipeWithSteps:
        """Get a recipe.

        Returns the recipe with its steps, without typed texts. With a `format` other than `json` it returns a program that performs
        the steps with plain calls of this API: `curl` for Bash, `python` for its standard library, `typescript` for Node. The program
        reads the texts to type from environment variables.
        """
        return cast("models.RecipeWithSteps", await self._core.call("GET", f"/v1/recipes/{quote(recipe_id)}", options, retryable=True, model='RecipeWithSteps'))

    async def get_text(self, recipe_id: str, *, format: Optional[params.RecipeFormat] = None, options: Optional[RequestOptions] = None) -> str:
        """Get a recipe.

        Returns the recipe with its steps, without typed texts. With a `format` other than `json` it returns a program that performs
        the steps with plain calls of this API: `curl` for Bash, `python` for its standard library, `typescript` for Node. The program
        reads the texts to type from environment variables.
        """
        return await self._core.text("GET", f"/v1/recipes/{quote(recipe_id)}", options, query={'format': format}, retryable=True)

    async def delete(self, recipe_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Delete a recipe.

        Deletes the recipe permanently.
        """
        await self._core.call("DELETE", f"/v1/recipes/{quote(recipe_id)}", options, retryable=True)


class AsyncSessionsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core
        self.trace_links = AsyncSessionsTraceLinksResource(core)
        self.live_links = AsyncSessionsLiveLinksResource(core)
        self.challenges = AsyncSessionsChallengesResource(core)
        self.console = AsyncSessionsConsoleResource(core)
        self.cookies = AsyncSessionsCookiesResource(core)
        self.downloads = AsyncSessionsDownloadsResource(core)
        self.frames = AsyncSessionsFramesResource(core)
        self.recording = AsyncSessionsRecordingResource(core)
        self.live_tickets = AsyncSessionsLiveTicketsResource(core)
        self.operations = AsyncSessionsOperationsResource(core)
        self.pages = AsyncSessionsPagesResource(core)
        self.requests = AsyncSessionsRequestsResource(core)
        self.timeline = AsyncSessionsTimelineResource(core)

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, status: Optional[Sequence[params.SessionStatus]] = None, label: Optional[str] = None, archetype: Optional[str] = None, profile_id: Optional[str] = None, api_key_id: Optional[str] = None, created_after: Optional[str] = None, created_before: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[AsyncSession]:
        """List sessions.

        Returns the account's sessions, newest first.
        """
        return self._core.page("/v1/sessions", options, query={'limit': limit, 'cursor': cursor, 'status': status, 'label': label, 'archetype': archetype, 'profile_id': profile_id, 'api_key_id': api_key_id, 'created_after': created_after, 'created_before': created_before}, retryable=True, model='Session')

    def create(self, *, archetype: Optional[str] = None, behavioral_profile: Optional[params.BehavioralProfile] = None, block: Optional[params.BlockedRequests] = None, color_scheme: Optional[params.ColorScheme] = None, detect_challenges: Optional[bool] = None, dialogs: Optional[params.DialogPolicy] = None, extra_headers: Optional[Sequence[params.ExtraHeader]] = None, geolocation: Optional[params.Geolocation] = None, label: Optional[str] = None, locale: Optional[str] = None, metadata: Optional[params.SessionCreateMetadata] = None, offline: Optional[bool] = None, orientation: Optional[params.Orientation] = None, profile_id: Optional[str] = None, purpose: Optional[str] = None, record: Optional[params.RecordMode] = None, timezone: Optional[str] = None, wait_timeout_ms: Optional[int] = None, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncSession]:
        """Create a session.

        Opens a mobile browser of the chosen archetype and returns when it is ready. The session occupies one of the account's
        concurrent slots until it is destroyed or errored. With a `profile_id` the session starts with the profile's data, and its
        data is saved back to the profile when it ends. A profile can have one live session at a time. If all browsers are taken, the
        request waits up to `wait_timeout_ms` for a free one; waiting accounts are served in turn. A raw `proxy` is rejected: customer
        egress is configured through an agent session.

        - `archetype`: Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status `launch`
        - `block`: Requests that the browser does not send
        - `color_scheme`: Color scheme that pages see; `light` by default
        - `detect_challenges`: False if challenges must not pause the session. By default they pause it, if the deployment detects challenges
        - `extra_headers`: Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them
        - `geolocation`: Position that pages of secure origins see; by default they are denied it
        - `label`: Free text
        - `locale`: Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session
        - `offline`: True to cut the browser off from the network
        - `orientation`: Orientation of the device; `portrait` by default
        - `profile_id`: Profile that the session starts from, with the cookies and storage of earlier sessions. A profile can have one live session at a time. Requires `write:profiles` in addition to `write:sessions`
        - `purpose`: Purpose: `production_customer`; other values are reserved
        - `timezone`: Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the session, whose browser takes longer to open
        - `wait_timeout_ms`: Maximum time in milliseconds to wait for a browser if all are taken. 0 does not wait; other values must be at least 100
        """
        return cast("AsyncOpening[AsyncSession]", self._core.open("POST", "/v1/sessions", options, json=given({'archetype': archetype, 'behavioral_profile': behavioral_profile, 'block': block, 'color_scheme': color_scheme, 'detect_challenges': detect_challenges, 'dialogs': dialogs, 'extra_headers': extra_headers, 'geolocation': geolocation, 'label': label, 'locale': locale, 'metadata': metadata, 'offline': offline, 'orientation': orientation, 'profile_id': profile_id, 'purpose': purpose, 'record': record, 'timezone': timezone, 'wait_timeout_ms': wait_timeout_ms}, {}), model='Session'))

    def get(self, session_id: str, *, options: Optional[RequestOptions] = None) -> AsyncOpening[AsyncSession]:
        """Get a session."""
        return cast("AsyncOpening[AsyncSession]", self._core.open("GET", f"/v1/sessions/{quote(session_id)}", options, retryable=True, model='Session'))

    async def destroy(self, session_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Destroy a session.

        Frees the session's slot immediately. An operation in progress fails with 410. Destroying a session again has no effect.
        """
        await self._core.call("DELETE", f"/v1/sessions/{quote(session_id)}", options, retryable=True)

    async def capture(self, session_id: str, *, kind: params.CaptureKind, background: Optional[bool] = None, format: Optional[params.ImageFormat] = None, full_page: Optional[bool] = None, landscape: Optional[bool] = None, margins: Optional[params.Margins] = None, paper: Optional[params.Paper] = None, quality: Optional[int] = None, reveal: Optional[bool] = None, scale: Optional[params.CaptureScale] = None, selector: Optional[str] = None, target: params.Target = None, options: Optional[RequestOptions] = None) -> models.Captured:
        """Capture a screenshot, the DOM or a PDF.

        Returns a picture or a PDF in base64, and the DOM as text. A result that exceeds its limit is withheld with a 502, and the
        session stays ready.

        - `background`: True to print backgrounds in a PDF
        - `full_page`: True to capture the whole document instead of the viewport; for screenshots
        - `landscape`: True for a PDF whose long side is horizontal
        - `quality`: Quality of a JPEG or a WebP
        - `reveal`: True to scroll through the whole page first, so that lazy content loads; for screenshots with `full_page`
        - `selector`: CSS selector of an element to capture, for screenshots; alternative to `target`
        """
        return cast("models.Captured", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/capture", options, json=given({'background': background, 'format': format, 'full_page': full_page, 'landscape': landscape, 'margins': margins, 'paper': paper, 'quality': quality, 'reveal': reveal, 'scale': scale, 'selector': selector, 'target': target}, {'kind': kind}), retryable=True, model='Captured'))

    async def update_emulation(self, session_id: str, *, block: Union[Union[params.BlockedRequests, None], Omit] = OMIT, color_scheme: Union[Union[params.ColorScheme, None], Omit] = OMIT, extra_headers: Union[Union[Sequence[params.ExtraHeader], None], Omit] = OMIT, geolocation: Union[Union[params.Geolocation, None], Omit] = OMIT, offline: Union[Union[bool, None], Omit] = OMIT, orientation: Union[Union[params.Orientation, None], Omit] = OMIT, options: Optional[RequestOptions] = None) -> models.SessionEmulation:
        """Change the emulation of a session.

        Changes the members of the body and returns the emulation in force. The current page sees the change without a new load,
        except for blocked requests and headers of requests that it has already sent. `locale` and `timezone` are fixed for the lifetime
        of the session. Values of headers are sealed on their way to the browser: they are neither stored in plain text nor returned.

        - `extra_headers`: Headers added to requests, at most 4 KiB in all. They replace the earlier ones; null removes all
        - `offline`: True to cut the browser off from the network; null for false
        """
        return cast("models.SessionEmulation", await self._core.call("PATCH", f"/v1/sessions/{quote(session_id)}/emulation", options, json=given({}, {'block': block, 'color_scheme': color_scheme, 'extra_headers': extra_headers, 'geolocation': geolocation, 'offline': offline, 'orientation': orientation}), retryable=True, model='SessionEmulation'))

    async def evaluate(self, session_id: str, *, script: str, args: Optional[Sequence[Any]] = None, on_timeout: Optional[params.OnTimeout] = None, timeout_ms: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.Evaluated:
        """Run a script in the page.

        Runs the body of an async function among the page's own scripts and returns its value. An exception of the script is a result
        too, and the session stays ready. The script, its arguments and its value are in no log.

        - `args`: Arguments, which the script gets as `args`; at most 64 KiB as JSON. By default there are none
        - `script`: Body of an async function, which can `return` a value and `await` promises
        - `timeout_ms`: Timeout in milliseconds
        """
        return cast("models.Evaluated", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/evaluate", options, json=given({'args': args, 'on_timeout': on_timeout, 'timeout_ms': timeout_ms}, {'script': script}), model='Evaluated'))

    async def extract(self, session_id: str, *, extractions: Sequence[params.Extraction], options: Optional[RequestOptions] = None) -> models.Extracted:
        """Extract values from the page.

        - `extractions`: Values to extract; each needs a unique name
        """
        return cast("models.Extracted", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/extract", options, json=given({}, {'extractions': extractions}), retryable=True, model='Extracted'))

    async def interact(self, session_id: str, *, action: params.Action, on_timeout: Optional[params.OnTimeout] = None, timeout_ms: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.Interacted:
        """Tap, type, fill, select, scroll, press a key, upload files, answer a dialog, go back or forward, or reload.

        If several elements match, the action is not performed: the request fails with 400 and up to five `candidates`, and the
        session stays `ready`. With `dialogs: hold`, a dialog ends the action early: the response has the `dialog`, and the action
        `dialog` answers it. Typed text is sealed on its way to the browser: it is neither stored in plain text nor logged. Files of
        an `upload` are not stored; they exist in the browser until the session ends.

        - `timeout_ms`: Timeout in milliseconds. If absent, a `type` action gets an additional 5 ms plus its `delay_ms` for each character, up to the maximum
        """
        return cast("models.Interacted", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/interact", options, json=given({'on_timeout': on_timeout, 'timeout_ms': timeout_ms}, {'action': action}), model='Interacted'))

    def live(self, session_id: str) -> str:
        """Watch a session.

        Opens a WebSocket. The ticket, offered as a subprotocol, is the only credential. In a browser, only pages of this service and
        of origins that the deployment allows can open it.
        """
        return self._core.address(f"/v1/sessions/{quote(session_id)}/live")

    async def login(self, session_id: str, *, username: str, password: str, password_selector: Optional[str] = None, submit_selector: Optional[str] = None, success_selector: Optional[str] = None, timeout_seconds: Optional[int] = None, username_selector: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.LoginResult:
        """Fill in and submit a login form.

        Available if the deployment's driver reports this capability. Otherwise every request fails with 503, whatever its content.
        The credentials are sealed on their way to the browser. `logged_in` is an estimate, not proof.

        - `password_selector`: CSS selector of the password field; detected automatically if absent
        - `submit_selector`: CSS selector of the submit button; detected automatically if absent
        - `success_selector`: CSS selector of an element that appears after a successful login
        - `timeout_seconds`: Timeout of each step in seconds
        - `username_selector`: CSS selector of the user name field; detected automatically if absent
        """
        return cast("models.LoginResult", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/login", options, json=given({'password_selector': password_selector, 'submit_selector': submit_selector, 'success_selector': success_selector, 'timeout_seconds': timeout_seconds, 'username_selector': username_selector}, {'password': password, 'username': username}), model='LoginResult'))

    async def navigate(self, session_id: str, *, url: str, on_failure: Optional[params.OnTimeout] = None, on_timeout: Optional[params.OnTimeout] = None, timeout_ms: Optional[int] = None, wait_until: Optional[params.WaitUntil] = None, options: Optional[RequestOptions] = None) -> models.Navigated:
        """Load a page.

        An HTTP error page counts as a success and is returned with its `status`. So does a response without a page: 204, 205, 304 and
        downloads leave the previous page in place. If the page cannot be reached (DNS, TLS, network), the request fails with 502 and the
        session is errored, unless `on_failure` is `return`.

        - `timeout_ms`: Timeout in milliseconds
        - `url`: An http or https address
        """
        return cast("models.Navigated", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/navigate", options, json=given({'on_failure': on_failure, 'on_timeout': on_timeout, 'timeout_ms': timeout_ms, 'wait_until': wait_until}, {'url': url}), model='Navigated'))

    async def search(self, session_id: str, *, query: str, search_selector: Optional[str] = None, submit: Optional[bool] = None, timeout_seconds: Optional[int] = None, wait_for_results_selector: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.SearchResult:
        """Fill in and submit a search form.

        Available if the deployment's driver reports this capability. Otherwise every request fails with 503, whatever its content.

        - `query`: Text to search for
        - `search_selector`: CSS selector of the search field; detected automatically if absent
        - `submit`: True to submit the form
        - `timeout_seconds`: Timeout of each step in seconds
        - `wait_for_results_selector`: CSS selector of an element that appears with the results
        """
        return cast("models.SearchResult", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/search", options, json=given({'search_selector': search_selector, 'submit': submit, 'timeout_seconds': timeout_seconds, 'wait_for_results_selector': wait_for_results_selector}, {'query': query}), model='SearchResult'))

    async def snapshot(self, session_id: str, body: Optional[params.PageSnapshotRequest] = None, *, options: Optional[RequestOptions] = None) -> models.PageSnapshot:
        """Take a snapshot of the page.

        Returns the page as assistive technology presents it: roles, names, states, and a `ref` that operations can use to address an
        element. The value of a password field is never included.
        """
        return cast("models.PageSnapshot", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/snapshot", options, json=body or {}, retryable=True, model='PageSnapshot'))

    async def state(self, session_id: str, *, options: Optional[RequestOptions] = None) -> models.SessionState:
        """Read the session's state.

        Reads the state from the live browser, which claims the session like any other operation.
        """
        return cast("models.SessionState", await self._core.call("GET", f"/v1/sessions/{quote(session_id)}/state", options, retryable=True, model='SessionState'))

    async def wait(self, session_id: str, *, condition: params.Condition, on_timeout: Optional[params.OnTimeout] = None, timeout_ms: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.Waited:
        """Wait for an element, a text, a script, an address, a response, a load, a download, a new page or a period of time.

        Returns when the condition is met. A timeout is a 504 and errors the session, unless `on_timeout` is `return`.

        - `timeout_ms`: Timeout in milliseconds. If absent, a `time` condition has a timeout of its `ms` plus 5,000
        """
        return cast("models.Waited", await self._core.call("POST", f"/v1/sessions/{quote(session_id)}/wait", options, json=given({'on_timeout': on_timeout, 'timeout_ms': timeout_ms}, {'condition': condition}), retryable=True, model='Waited'))


class AsyncStatusResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def get(self, *, options: Optional[RequestOptions] = None) -> models.ServiceStatus:
        """Get the status of the service.

        Responds within a second, even if the database does not respond.
        """
        return cast("models.ServiceStatus", await self._core.call("GET", "/v1/status", options, retryable=True, model='ServiceStatus'))

    async def subscribe(self, *, email: str, options: Optional[RequestOptions] = None) -> models.SubscriptionAsked:
        """Subscribe to incidents.

        Mails a confirmation link to the address. The subscription begins when the link is followed. The response is the same whether
        or not the address is already subscribed.

        - `email`: E-mail address to notify of incidents
        """
        return cast("models.SubscriptionAsked", await self._core.call("POST", "/v1/status/subscribers", options, json=given({}, {'email': email}), model='SubscriptionAsked'))


class AsyncSystemResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def health(self, *, options: Optional[RequestOptions] = None) -> models.Health:
        """Check liveness.

        Checks only the process itself.
        """
        return cast("models.Health", await self._core.call("GET", "/healthz", options, retryable=True, model='Health'))

    async def metrics(self, *, options: Optional[RequestOptions] = None) -> str:
        """Get the operator metrics.

        Returns the text exposition format to a scraper that presents the deployment's metrics token. Counters restart at zero with
        the process.
        """
        return await self._core.text("GET", "/metrics", options, retryable=True)

    async def openapi(self, *, audience: Optional[Literal['customer']] = None, options: Optional[RequestOptions] = None) -> models.GetContract:
        """Get the OpenAPI document.

        The document for customers has no staff routes, no routes for payment providers and no registration of nodes.
        """
        return cast("models.GetContract", await self._core.call("GET", "/openapi.json", options, query={'audience': audience}, retryable=True))

    async def readiness(self, *, for_: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.Readiness:
        """Check readiness.

        Checks the database, its migrations, the encryption key, a live worker, and free disk space. With `for=api` no live worker is
        needed. A load balancer should use it: without it, the load balancer would remove all API processes while no worker runs.
        """
        return cast("models.Readiness", await self._core.call("GET", "/readyz", options, query={'for': for_}, retryable=True, model='Readiness'))


class AsyncTeamResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core
        self.invites = AsyncTeamInvitesResource(core)
        self.members = AsyncTeamMembersResource(core)
        self.owners = AsyncTeamOwnersResource(core)


class AsyncTeamsResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.Team]:
        """List teams.

        Returns the team that the caller owns; every account owns one.
        """
        return self._core.page("/v1/teams", options, retryable=True, model='Team')

    async def update(self, team_id: str, *, name: str, options: Optional[RequestOptions] = None) -> models.UpdatedTeam:
        """Rename a team.

        - `name`: Name of the team
        """
        return cast("models.UpdatedTeam", await self._core.call("PATCH", f"/v1/teams/{quote(team_id)}", options, json=given({}, {'name': name}), retryable=True, model='UpdatedTeam'))


class AsyncUsageResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def get(self, *, options: Optional[RequestOptions] = None) -> models.UsageSummary:
        """Get the usage of the current month.

        Returns the usage of the UTC calendar month so far. Live sessions are counted up to now.
        """
        return cast("models.UsageSummary", await self._core.call("GET", "/v1/usage", options, retryable=True, model='UsageSummary'))

    async def breakdown(self, *, by: params.UsageDimension, days: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.UsageBreakdown:
        """Get usage by API key, archetype or label.

        Returns the usage of the last complete UTC days, up to yesterday, by a property of the sessions.
        """
        return cast("models.UsageBreakdown", await self._core.call("GET", "/v1/usage/breakdown", options, query={'by': by, 'days': days}, retryable=True, model='UsageBreakdown'))

    async def series(self, *, days: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.UsageSeries:
        """Get usage by day.

        Returns the usage of the last complete UTC days, up to yesterday.
        """
        return cast("models.UsageSeries", await self._core.call("GET", "/v1/usage/series", options, query={'days': days}, retryable=True, model='UsageSeries'))


class AsyncWebhookDeliveriesResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, status: Optional[params.WebhookDeliveryStatus] = None, endpoint_id: Optional[str] = None, event_type: Optional[params.EventType] = None, created_after: Optional[str] = None, created_before: Optional[str] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.WebhookDelivery]:
        """List the deliveries of an account.

        Returns the deliveries to all endpoints, newest first, including deleted endpoints.
        """
        return self._core.page("/v1/webhook-deliveries", options, query={'limit': limit, 'cursor': cursor, 'status': status, 'endpoint_id': endpoint_id, 'event_type': event_type, 'created_after': created_after, 'created_before': created_before}, retryable=True, model='WebhookDelivery')

    async def get(self, delivery_id: str, *, options: Optional[RequestOptions] = None) -> models.WebhookDeliveryDetail:
        """Get a webhook delivery."""
        return cast("models.WebhookDeliveryDetail", await self._core.call("GET", f"/v1/webhook-deliveries/{quote(delivery_id)}", options, retryable=True, model='WebhookDeliveryDetail'))

    async def replay(self, delivery_id: str, *, options: Optional[RequestOptions] = None) -> models.SentDelivery:
        """Replay a webhook delivery.

        Sends the same event to the same endpoint again, as a new delivery. The original delivery must have ended.
        """
        return cast("models.SentDelivery", await self._core.call("POST", f"/v1/webhook-deliveries/{quote(delivery_id)}/replay", options, model='SentDelivery'))


class AsyncWebhooksResource:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(self, *, options: Optional[RequestOptions] = None) -> AsyncPager[models.WebhookEndpoint]:
        """List webhook endpoints.

        Returns all endpoints except deleted ones, newest first.
        """
        return self._core.page("/v1/webhooks", options, retryable=True, model='WebhookEndpoint')

    async def create(self, *, url: str, events: Sequence[params.SubscribableEventType], description: Optional[str] = None, options: Optional[RequestOptions] = None) -> models.CreatedWebhook:
        """Create a webhook endpoint.

        The endpoint receives events created after this call. An account has at most ten endpoints that are not disabled.

        - `description`: Description by the account owner
        - `url`: URL that deliveries are sent to: https, without user name and password
        """
        return cast("models.CreatedWebhook", await self._core.call("POST", "/v1/webhooks", options, json=given({'description': description}, {'events': events, 'url': url}), model='CreatedWebhook'))

    async def get(self, webhook_id: str, *, options: Optional[RequestOptions] = None) -> models.WebhookEndpoint:
        """Get a webhook endpoint.

        Also returns a deleted endpoint.
        """
        return cast("models.WebhookEndpoint", await self._core.call("GET", f"/v1/webhooks/{quote(webhook_id)}", options, retryable=True, model='WebhookEndpoint'))

    async def delete(self, webhook_id: str, *, options: Optional[RequestOptions] = None) -> None:
        """Delete a webhook endpoint.

        Pending deliveries fail. Deleting a deleted endpoint has no effect.
        """
        await self._core.call("DELETE", f"/v1/webhooks/{quote(webhook_id)}", options, retryable=True)

    async def update(self, webhook_id: str, *, active: Union[Union[bool, None], Omit] = OMIT, description: Union[Union[str, None], Omit] = OMIT, events: Union[Union[Sequence[params.SubscribableEventType], None], Omit] = OMIT, url: Union[Union[str, None], Omit] = OMIT, options: Optional[RequestOptions] = None) -> models.WebhookEndpoint:
        """Update a webhook endpoint.

        Deliveries that are pending when an endpoint is paused are sent when it is active again. Events that occur during the pause
        are not delivered.

        - `active`: True to deliver events, false to pause the endpoint
        - `description`: Description by the account owner; null removes it
        - `url`: URL that deliveries are sent to
        """
        return cast("models.WebhookEndpoint", await self._core.call("PATCH", f"/v1/webhooks/{quote(webhook_id)}", options, json=given({}, {'active': active, 'description': description, 'events': events, 'url': url}), retryable=True, model='WebhookEndpoint'))

    def list_deliveries(self, webhook_id: str, *, limit: Optional[int] = None, cursor: Optional[str] = None, status: Optional[params.WebhookDeliveryStatus] = None, options: Optional[RequestOptions] = None) -> AsyncPager[models.WebhookDelivery]:
        """List the deliveries of a webhook endpoint."""
        return self._core.page(f"/v1/webhooks/{quote(webhook_id)}/deliveries", options, query={'limit': limit, 'cursor': cursor, 'status': status}, retryable=True, model='WebhookDelivery')

    async def rotate_secret(self, webhook_id: str, *, options: Optional[RequestOptions] = None) -> models.RotatedSecret:
        """Rotate the secret of a webhook endpoint.

        Deliveries are signed with both secrets for 24 hours, the new one first.
        """
        return cast("models.RotatedSecret", await self._core.call("POST", f"/v1/webhooks/{quote(webhook_id)}/rotate-secret", options, model='RotatedSecret'))

    async def test(self, webhook_id: str, *, options: Optional[RequestOptions] = None) -> models.SentDelivery:
        """Test a webhook endpoint.

        Sends a `test.ping` event, regardless of the subscribed event types.
        """
        return cast("models.SentDelivery", await self._core.call("POST", f"/v1/webhooks/{quote(webhook_id)}/test", options, model='SentDelivery'))


class AsyncResources:
    """The resources of the API."""

    def __init__(self, core: AsyncCore) -> None:
        self.account = AsyncAccountResource(core)
        self.agent_sessions = AsyncAgentSessionsResource(core)
        self.api_keys = AsyncApiKeysResource(core)
        self.approvals = AsyncApprovalsResource(core)
        self.archetypes = AsyncArchetypesResource(core)
        self.audit_log = AsyncAuditLogResource(core)
        self.auth = AsyncAuthResource(core)
        self.billing = AsyncBillingResource(core)
        self.device_codes = AsyncDeviceCodesResource(core)
        self.mfa = AsyncMfaResource(core)
        self.notifications = AsyncNotificationsResource(core)
        self.oauth = AsyncOauthResource(core)
        self.profiles = AsyncProfilesResource(core)
        self.proxies = AsyncProxiesResource(core)
        self.recipes = AsyncRecipesResource(core)
        self.sessions = AsyncSessionsResource(core)
        self.status = AsyncStatusResource(core)
        self.system = AsyncSystemResource(core)
        self.team = AsyncTeamResource(core)
        self.teams = AsyncTeamsResource(core)
        self.usage = AsyncUsageResource(core)
        self.webhook_deliveries = AsyncWebhookDeliveriesResource(core)
        self.webhooks = AsyncWebhooksResource(core)
