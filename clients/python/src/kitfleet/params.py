"""Arguments of the API: dictionaries with these members.

Generated from openapi.json by clients/generate/generate.py. Do not edit.
"""

from __future__ import annotations

from typing import Any, Literal, Mapping, Sequence, TypedDict, Union


class _AgentFileCreate(TypedDict):
    content: str
    """Content of the file in base64, of at most 16 MiB"""
    name: str
    """Name by which messages refer to the file, and which pages see. Of a path only the last part counts, and hidden characters are
    removed
    """


class AgentFileCreate(_AgentFileCreate, total=False):
    """File to attach to an agent session"""
    content_type: Union[str, None]
    """Media type. The page sees the one that a browser derives from the name"""


class _AgentMessage(TypedDict):
    message: str
    """Instructions in natural language"""


class AgentMessage(_AgentMessage, total=False):
    """Message to an agent session"""
    approvals: Union[Sequence[str], None]
    """IDs of the intents that this message approves. The plan that they belong to then continues"""


class AgentSessionClient(TypedDict):
    """Client of a person"""
    client_id: str
    """Name of the client; it identifies the client that has control"""


class AgentSessionCreate(TypedDict, total=False):
    """Body of `POST /v1/agent-sessions`; every field is optional"""
    archetype: Union[str, None]
    """Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status
    `launch`
    """
    block: Union[BlockedRequests, None]
    color_scheme: Union[ColorScheme, None]
    detect_challenges: Union[bool, None]
    """False if challenges must not pause the session. By default they pause it, if the deployment detects challenges"""
    dialogs: Union[DialogPolicy, None]
    extra_headers: Union[Sequence[ExtraHeader], None]
    """Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them"""
    geolocation: Union[Geolocation, None]
    label: Union[str, None]
    """Free text"""
    locale: Union[str, None]
    """Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session"""
    mode: Union[AgentSessionMode, None]
    offline: Union[bool, None]
    """True to cut the browser off from the network"""
    orientation: Union[Orientation, None]
    profile_id: Union[str, None]
    """Profile that the browser starts from. A profile can have one live session at a time. Requires `write:profiles` in addition
    to `write:agents`
    """
    proxy_id: Union[str, None]
    """Saved proxy of the account. The browser sends all its traffic through it"""
    timezone: Union[str, None]
    """Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
    session, whose browser takes longer to open
    """
    token_budget: Union[int, None]
    """Maximum number of model tokens; 200,000 by default"""


class AgentSessionModeChange(TypedDict):
    """Body of a change of mode"""
    mode: AgentSessionMode


class BackAction(TypedDict):
    """Go back to the previous page"""
    kind: Literal['back']


class _BindDevice(TypedDict):
    state: str
    """Nonce of the app"""
    user_code: str
    """Code that the app shows"""


class BindDevice(_BindDevice, total=False):
    """Request body of an authorization"""
    scopes: Union[Sequence[Scope], None]
    """Scopes of the credential; the caller can grant only scopes of their own credential"""


class BlockedRequests(TypedDict, total=False):
    """Requests that the browser does not send"""
    hosts: Sequence[str]
    """Hosts without a scheme, a port or a wildcard. A host covers its subdomains"""
    resource_types: Sequence[ResourceType]
    """Types of blocked requests"""


class BundledLlmConsent(TypedDict):
    """Consent to the use of the deployment's model key"""
    consented: bool
    """True when agent sessions may use the model that the deployment pays for. It applies to accounts without a provider key"""


class _Capture(TypedDict):
    kind: CaptureKind


class Capture(_Capture, total=False):
    """Body of `capture`"""
    background: Union[bool, None]
    """True to print backgrounds in a PDF"""
    format: Union[ImageFormat, None]
    full_page: Union[bool, None]
    """True to capture the whole document instead of the viewport; for screenshots"""
    landscape: Union[bool, None]
    """True for a PDF whose long side is horizontal"""
    margins: Union[Margins, None]
    paper: Union[Paper, None]
    quality: Union[int, None]
    """Quality of a JPEG or a WebP"""
    reveal: Union[bool, None]
    """True to scroll through the whole page first, so that lazy content loads; for screenshots with `full_page`"""
    scale: Union[CaptureScale, None]
    selector: Union[str, None]
    """CSS selector of an element to capture, for screenshots; alternative to `target`"""
    target: Target


class _ChallengeProof(TypedDict):
    challenge_token: str
    """Token of the login response"""


class ChallengeProof(_ChallengeProof, total=False):
    """Request body of a login challenge"""
    code: Union[str, None]
    """Six-digit code of the authenticator app. Send either this or `recovery_code`"""
    recovery_code: Union[str, None]
    """Recovery code, with or without the hyphen. Send either this or `code`"""


class _CheckAction(TypedDict):
    kind: Literal['check']


class CheckAction(_CheckAction, total=False):
    """Set the state of a checkbox, a switch or a radio button"""
    checked: Union[bool, None]
    """Wanted state. If the control has it already, nothing happens. A radio button cannot be unchecked"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`"""
    target: Target


class _ClearAction(TypedDict):
    kind: Literal['clear']


class ClearAction(_ClearAction, total=False):
    """Remove the content of a field"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`"""
    target: Target


class CreateCheckoutSession(TypedDict):
    """Tier to buy and the return URLs"""
    cancel_url: str
    """URL the provider redirects to when the purchase is cancelled; http or https"""
    success_url: str
    """URL the provider redirects to after payment; http or https"""
    tier: PaidTier


class _CreateCryptoOrder(TypedDict):
    product: PaidTier


class CreateCryptoOrder(_CreateCryptoOrder, total=False):
    """Request body of a crypto order"""
    pay_currency: Union[str, None]
    """Currency of the payment, as the processor names it; default `btc`"""
    price_currency: Union[str, None]
    """Currency of the price: `usd`"""


class _CreateKey(TypedDict):
    name: str
    """Name of the key"""
    scopes: Sequence[Scope]
    """Scopes of the credential; the caller can grant only scopes of their own credential"""


class CreateKey(_CreateKey, total=False):
    """Request body of an API key creation"""
    expires_at: Union[str, None]
    """Time the key expires (RFC 3339); a key without it does not expire"""


class CreateLiveLink(TypedDict, total=False):
    """Validity of a new live link"""
    expires_in: Union[int, None]
    """Validity in seconds; one hour by default"""


class CreatePortalSession(TypedDict):
    """Return URL of the billing portal"""
    return_url: str
    """URL of the portal's return link; http or https"""


class _CreateRecipe(TypedDict):
    agent_session_id: str
    """Agent session whose steps become the recipe. It must belong to the caller, or to an account whose team has the caller as
    admin
    """
    label: str
    """Label; leading and trailing white space is removed"""


class CreateRecipe(_CreateRecipe, total=False):
    """Body of a recipe's creation"""
    description: Union[str, None]
    """Description"""


class _CreateWebhook(TypedDict):
    events: Sequence[SubscribableEventType]
    url: str
    """URL that deliveries are sent to: https, without user name and password"""


class CreateWebhook(_CreateWebhook, total=False):
    """Request body of a webhook endpoint creation"""
    description: Union[str, None]
    """Description by the account owner"""


class DeleteAccount(TypedDict):
    """Request body of an account deletion"""
    confirm: str
    """The literal `delete-account`"""


class _DialogAction(TypedDict):
    accept: bool
    """True to accept the dialog, false to dismiss it"""
    kind: Literal['dialog']


class DialogAction(_DialogAction, total=False):
    """Answer the dialog that waits for an answer, in a session with `dialogs: hold`"""
    text: Union[str, None]
    """Answer to a prompt that is accepted; by default its default value"""


class DisableMfa(TypedDict):
    """Request body of both routes that disable the second factor"""
    confirm: str
    """The literal `disable-mfa`"""


class DownloadCondition(TypedDict):
    """Download that has begun since the previous operation began. It has ended, or has taken 2 s"""
    kind: Literal['download']


class _DragAction(TypedDict):
    kind: Literal['drag']


class DragAction(_DragAction, total=False):
    """Drag with a finger or a mouse, along a path or to another element"""
    duration_ms: Union[int, None]
    """Duration of the movement in milliseconds"""
    path: Union[Sequence[Point], None]
    pointer: Union[PointerKind, None]
    selector: Union[str, None]
    """CSS selector of the element where the drag starts; alternative to `target`. Both can be absent with `path`"""
    target: Target
    to: Union[DragEnd, None]


class DragEnd(TypedDict, total=False):
    """End of a drag"""
    at: Union[Point, None]
    selector: Union[str, None]
    """CSS selector; alternative to `target`"""
    target: Target


class EmailPreferenceChange(TypedDict):
    """An update of an e-mail preference"""
    event_type: OptionalEmail
    opted_in: bool


class EmailRequest(TypedDict):
    """Request body of the routes that mail a link"""
    email: str
    """E-mail address to write to"""


class _Evaluate(TypedDict):
    script: str
    """Body of an async function, which can `return` a value and `await` promises"""


class Evaluate(_Evaluate, total=False):
    """Body of `evaluate`"""
    args: Union[Sequence[Any], None]
    """Arguments, which the script gets as `args`; at most 64 KiB as JSON. By default there are none"""
    on_timeout: Union[OnTimeout, None]
    timeout_ms: Union[int, None]
    """Timeout in milliseconds"""


class ExchangeDeviceCode(TypedDict):
    """Request body of an exchange"""
    code: str
    """`code` of the device code response"""
    state: str
    """Nonce of the app"""


class _ExtraHeader(TypedDict):
    name: str
    """Name. `Host`, `Cookie`, `Content-Length` and headers of a single connection are rejected"""
    value: str
    """Value: printable ASCII characters and spaces. It is never returned"""


class ExtraHeader(_ExtraHeader, total=False):
    """Header that is added to requests"""
    origins: Union[Sequence[str], None]
    """Origins that receive the header, such as `https://example.com`; by default all. Required for `Authorization` and
    `Proxy-Authorization`
    """


class Extract(TypedDict):
    """Body of `extract`"""
    extractions: Sequence[Extraction]
    """Values to extract; each needs a unique name"""


class _Extraction(TypedDict):
    name: str
    """Key of the value in the response"""
    type: ExtractionType


class Extraction(_Extraction, total=False):
    """Value to extract"""
    attribute: Union[str, None]
    """Attribute name, for `attribute`"""
    extract: Union[Mapping[str, SubExtraction], None]
    """Sub-fields to read from each match of a `list`; the match's text if absent. At most 32 sub-fields, with names of at most
    120 characters
    """
    selector: Union[str, None]
    """CSS selector; alternative to `target`"""
    target: Target
    transform: Union[ExtractionTransform, None]


class _FillAction(TypedDict):
    kind: Literal['fill']
    value: str
    """New content. A field for a date, a time, a color or a range takes the form that HTML defines, such as `2026-11-08`"""


class FillAction(_FillAction, total=False):
    """Replace the content of a field"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`"""
    target: Target


class FollowLiveLink(TypedDict):
    """Secret of a live link"""
    link: str
    """Part of the link's address after the `#`"""


class ForwardAction(TypedDict):
    """Go forward to the next page"""
    kind: Literal['forward']


class FunctionCondition(TypedDict):
    """Script in the page's own world, which is repeated until it returns something truthy. A run that throws an exception is
    repeated too. 409 while the session holds back submissions
    """
    kind: Literal['function']
    script: str
    """Body of an async function. A syntax error is a 400"""


class Geolocation(TypedDict):
    """Position that the Geolocation API reports"""
    accuracy: float
    """Accuracy in meters"""
    latitude: float
    """Degrees north"""
    longitude: float
    """Degrees east"""


class _HoverAction(TypedDict):
    kind: Literal['hover']


class HoverAction(_HoverAction, total=False):
    """Move a mouse to an element or a point, without a press"""
    at: Union[Point, None]
    selector: Union[str, None]
    """CSS selector; alternative to `target`. Both can be absent if `at` is given"""
    target: Target


class _InitiateDevice(TypedDict):
    state: str
    """Random nonce chosen by the app"""


class InitiateDevice(_InitiateDevice, total=False):
    """Request body of a device code request"""
    client_label: Union[str, None]
    """Name of the app"""


class _Interact(TypedDict):
    action: Action


class Interact(_Interact, total=False):
    """Body of `interact`"""
    on_timeout: Union[OnTimeout, None]
    timeout_ms: Union[int, None]
    """Timeout in milliseconds. If absent, a `type` action gets an additional 5 ms plus its `delay_ms` for each character, up to
    the maximum
    """


class _LabelTarget(TypedDict):
    label: str
    """Part of the label, case-insensitive"""


class LabelTarget(_LabelTarget, total=False):
    """Control with a label"""
    exact: Union[bool, None]
    """True to match the whole text only, case-sensitive"""


class LinkToken(TypedDict):
    """Request body of the routes that take a mailed link"""
    token: str
    """Token of the mailed link"""


class LiveTicketRequest(TypedDict, total=False):
    """Body of a request for a ticket"""
    client_id: Union[str, None]
    """Name of the controller's client, recorded when it takes over an agent session"""
    role: Union[LiveRole, None]


class LoadStateCondition(TypedDict):
    """State of the load of the page"""
    kind: Literal['load_state']
    state: WaitUntil


class Margins(TypedDict, total=False):
    """Margins of a PDF"""
    bottom: Union[float, None]
    """Millimetres at the bottom"""
    left: Union[float, None]
    """Millimetres at the left"""
    right: Union[float, None]
    """Millimetres at the right"""
    top: Union[float, None]
    """Millimetres at the top"""


class MfaCode(TypedDict):
    """Request body of an enrollment verification"""
    code: str
    """Six-digit code of the authenticator app"""


class _Navigate(TypedDict):
    url: str
    """An http or https address"""


class Navigate(_Navigate, total=False):
    """Body of `navigate`"""
    on_failure: Union[OnTimeout, None]
    on_timeout: Union[OnTimeout, None]
    timeout_ms: Union[int, None]
    """Timeout in milliseconds"""
    wait_until: Union[WaitUntil, None]


class NewClient(TypedDict):
    """Request body of an OAuth client creation"""
    name: str
    """Name of the client, 1 to 120 characters"""
    scopes: Sequence[Scope]
    """Scopes of the credential; the caller can grant only scopes of their own credential"""


class NewInvite(TypedDict):
    """Request body of an invitation"""
    email: str
    """E-mail address to invite; it does not need an account"""
    role: TeamRole


class PageCondition(TypedDict):
    """Page that was opened since the previous operation began, or is opened during the wait"""
    kind: Literal['page']


class _PlaceholderTarget(TypedDict):
    placeholder: str
    """Part of the placeholder, case-insensitive"""


class PlaceholderTarget(_PlaceholderTarget, total=False):
    """Field with a placeholder"""
    exact: Union[bool, None]
    """True to match the whole text only, case-sensitive"""


class Point(TypedDict):
    """Point in CSS pixels."""
    x: float
    y: float


class PressAction(TypedDict):
    """Press a key"""
    key: str
    """Character, or key name such as `Enter`, alone or after modifiers (`Shift`, `Control`, `Alt`, `Meta`), each at most once, as in
    `Control+Shift+ArrowLeft`. A name has at most 20 characters
    """
    kind: Literal['press']


class ProfileCopy(TypedDict, total=False):
    """Body of a create from another profile or a snapshot; every field is optional"""
    name: Union[str, None]
    """Name; by default the source's name with an added word"""


class _ProfileCreate(TypedDict):
    name: str
    """Name; it need not be unique"""


class ProfileCreate(_ProfileCreate, total=False):
    """Body of a profile's creation"""
    archetype: Union[str, None]
    """Archetype ID from `GET /v1/archetypes`. Default: the one with status `launch`"""


class ProfileLaunch(TypedDict, total=False):
    """Body of `POST /v1/profiles/{id}/launch`; every field is optional"""
    behavioral_profile: Union[BehavioralProfile, None]
    block: Union[BlockedRequests, None]
    color_scheme: Union[ColorScheme, None]
    detect_challenges: Union[bool, None]
    """False if challenges must not pause the session. By default they pause it, if the deployment detects challenges"""
    dialogs: Union[DialogPolicy, None]
    extra_headers: Union[Sequence[ExtraHeader], None]
    """Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them"""
    geolocation: Union[Geolocation, None]
    label: Union[str, None]
    """Free text"""
    locale: Union[str, None]
    """Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session"""
    metadata: Union[Mapping[str, Any], None]
    """Customer data, at most 16 KiB as JSON; `profile_id` and `profile_name` are added"""
    offline: Union[bool, None]
    """True to cut the browser off from the network"""
    orientation: Union[Orientation, None]
    purpose: Union[str, None]
    """Purpose: `production_customer`; other values are reserved"""
    timezone: Union[str, None]
    """Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
    session, whose browser takes longer to open
    """
    wait_timeout_ms: Union[int, None]
    """Maximum time in milliseconds to wait for a browser if all are taken. 0 does not wait; other values must be at least 100"""


class ProfileUpdate(TypedDict):
    """Body of a profile's change"""
    name: str
    """New name"""


class _ProxySave(TypedDict):
    label: str
    """Label; leading and trailing white space is removed"""
    scheme: ProxyScheme


class ProxySave(_ProxySave, total=False):
    """Body of a saved proxy's creation and replacement"""
    config: Union[str, None]
    """Configuration of a tunnel: for `wireguard` the text of a wg-quick file (at most 16 KiB), for `openvpn` a client profile
    with inline certificates and keys (at most 64 KiB). On replacement, an absent configuration is kept
    """
    host: Union[str, None]
    """Host, for `socks5` and `http`: a name or a public address"""
    password: Union[str, None]
    """Password sent to the proxy, 1 to 255 bytes. On replacement, an absent password is kept, and null removes it"""
    port: Union[int, None]
    """Port, for `socks5` and `http`"""
    username: Union[str, None]
    """User name sent to the proxy, 1 to 255 bytes; for `http` without a colon"""


class RefTarget(TypedDict):
    """Element of a snapshot"""
    ref: str
    """Element's `ref` in the snapshot"""


class ReloadAction(TypedDict):
    """Reload the page"""
    kind: Literal['reload']


class ResetPassword(TypedDict):
    """Request body of a password reset"""
    new_password: str
    """New password, at least 12 characters"""
    token: str
    """Token of the mailed link"""


class _ResponseCondition(TypedDict):
    kind: Literal['response']
    url_pattern: str
    """Regular expression for the address, as `pattern` of `url_matches`"""


class ResponseCondition(_ResponseCondition, total=False):
    """Response that a page of the session has received since the previous operation began, or receives during the wait. The newest
    1,000 responses are known
    """
    status: Union[int, None]
    """HTTP status; any if absent"""


class _RoleTarget(TypedDict):
    role: ElementRole


class RoleTarget(_RoleTarget, total=False):
    """Element with a role"""
    exact: Union[bool, None]
    """True to match the whole text only, case-sensitive"""
    name: Union[str, None]
    """Part of the accessible name, case-insensitive"""


class _ScrollAction(TypedDict):
    kind: Literal['scroll']


class ScrollAction(_ScrollAction, total=False):
    """Scroll the page or a scrollable element"""
    delta_x: Union[int, None]
    """Pixels to the right"""
    delta_y: Union[int, None]
    """Pixels down"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`. If both are absent, the page scrolls"""
    target: Target


class _SelectAction(TypedDict):
    kind: Literal['select']


class SelectAction(_SelectAction, total=False):
    """Select an option of a `<select>` element"""
    option: Union[str, None]
    """Value or label of the option; alternative to `options`"""
    options: Union[Sequence[str], None]
    """Values or labels of the options. They replace the selection, also of a menu with multiple selection"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`"""
    target: Target


class _SelectorCondition(TypedDict):
    kind: Literal['selector']


class SelectorCondition(_SelectorCondition, total=False):
    """Visible element"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`"""
    target: Target


class _SelectorHiddenCondition(TypedDict):
    kind: Literal['selector_hidden']


class SelectorHiddenCondition(_SelectorHiddenCondition, total=False):
    """Visible element"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`"""
    target: Target


class SelectorTarget(TypedDict):
    """Element matched by a CSS selector, which must match no other element"""
    selector: str


class _SessionCookieSet(TypedDict):
    domain: str
    """Host of the cookie; with a leading dot also its subdomains"""
    name: str
    """Name without `=`, `;` and control characters"""
    value: str
    """Value without `;` and control characters; at most 4,096 bytes with the name"""


class SessionCookieSet(_SessionCookieSet, total=False):
    """Cookie to set"""
    expires: Union[str, None]
    """Time at which the browser deletes the cookie, in the future; by default the cookie lasts as long as the browser"""
    http_only: Union[bool, None]
    """True to hide the cookie from scripts"""
    path: Union[str, None]
    """Path of the cookie"""
    same_site: Union[SameSite, None]
    secure: Union[bool, None]
    """True to send the cookie over TLS only"""


class SessionCookiesSet(TypedDict):
    """Body of a change of cookies"""
    cookies: Sequence[SessionCookieSet]
    """Cookies to set"""


class SessionCreate(TypedDict, total=False):
    """Body of `POST /v1/sessions`; every field is optional"""
    archetype: Union[str, None]
    """Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status
    `launch`
    """
    behavioral_profile: Union[BehavioralProfile, None]
    block: Union[BlockedRequests, None]
    color_scheme: Union[ColorScheme, None]
    detect_challenges: Union[bool, None]
    """False if challenges must not pause the session. By default they pause it, if the deployment detects challenges"""
    dialogs: Union[DialogPolicy, None]
    extra_headers: Union[Sequence[ExtraHeader], None]
    """Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them"""
    geolocation: Union[Geolocation, None]
    label: Union[str, None]
    """Free text"""
    locale: Union[str, None]
    """Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session"""
    metadata: Union[Mapping[str, Any], None]
    """Customer data, at most 16 KiB as JSON"""
    offline: Union[bool, None]
    """True to cut the browser off from the network"""
    orientation: Union[Orientation, None]
    profile_id: Union[str, None]
    """Profile that the session starts from, with the cookies and storage of earlier sessions. A profile can have one live
    session at a time. Requires `write:profiles` in addition to `write:sessions`
    """
    purpose: Union[str, None]
    """Purpose: `production_customer`; other values are reserved"""
    timezone: Union[str, None]
    """Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
    session, whose browser takes longer to open
    """
    wait_timeout_ms: Union[int, None]
    """Maximum time in milliseconds to wait for a browser if all are taken. 0 does not wait; other values must be at least 100"""


class SessionEmulationUpdate(TypedDict, total=False):
    """Body of a change of the emulation; at least one member is required. An absent member does not change"""
    block: Union[BlockedRequests, None]
    color_scheme: Union[ColorScheme, None]
    extra_headers: Union[Sequence[ExtraHeader], None]
    """Headers added to requests, at most 4 KiB in all. They replace the earlier ones; null removes all"""
    geolocation: Union[Geolocation, None]
    offline: Union[bool, None]
    """True to cut the browser off from the network; null for false"""
    orientation: Union[Orientation, None]


class _SessionLogin(TypedDict):
    password: str
    username: str


class SessionLogin(_SessionLogin, total=False):
    """Body of `login`"""
    password_selector: Union[str, None]
    """CSS selector of the password field; detected automatically if absent"""
    submit_selector: Union[str, None]
    """CSS selector of the submit button; detected automatically if absent"""
    success_selector: Union[str, None]
    """CSS selector of an element that appears after a successful login"""
    timeout_seconds: Union[int, None]
    """Timeout of each step in seconds"""
    username_selector: Union[str, None]
    """CSS selector of the user name field; detected automatically if absent"""


class SessionPageOpen(TypedDict, total=False):
    """Body of a new page; the field is optional"""
    url: Union[str, None]
    """An http or https address; by default the page is blank"""


class _SessionSearch(TypedDict):
    query: str
    """Text to search for"""


class SessionSearch(_SessionSearch, total=False):
    """Body of `search`"""
    search_selector: Union[str, None]
    """CSS selector of the search field; detected automatically if absent"""
    submit: Union[bool, None]
    """True to submit the form"""
    timeout_seconds: Union[int, None]
    """Timeout of each step in seconds"""
    wait_for_results_selector: Union[str, None]
    """CSS selector of an element that appears with the results"""


class SessionToken(TypedDict):
    """Request body of refresh and logout"""
    token: str
    """Token of the web session"""


class SetProviderKey(TypedDict):
    """Request body that sets a provider key"""
    key: str
    """The provider's API key. No response returns it"""


class SignIn(TypedDict):
    """Request body of a login"""
    email: str
    """E-mail address of the account"""
    password: str
    """Password of the account"""


class SignUp(TypedDict):
    """Request body of a sign-up"""
    email: str
    """E-mail address of the account"""
    name: str
    """Display name of the account owner"""
    password: str
    """Password, at least 12 characters"""


class SnapshotCreate(TypedDict, total=False):
    """Body of a snapshot's creation; every field is optional"""
    label: Union[str, None]
    """Free text"""


class StatusSubscription(TypedDict):
    """Request body of a subscription"""
    email: str
    """E-mail address to notify of incidents"""


class StepUpProof(TypedDict):
    """Request body of a step-up"""
    code: str
    """Six-digit code of the authenticator app, or a recovery code"""


class _SubExtraction(TypedDict):
    selector: str
    """CSS selector, evaluated inside the match. `:scope` is the match itself"""
    type: SubExtractionType


class SubExtraction(_SubExtraction, total=False):
    """Value to extract from each match of a list"""
    attribute: Union[str, None]
    """Attribute name, for `attribute`"""


class _SwipeAction(TypedDict):
    direction: SwipeDirection
    kind: Literal['swipe']


class SwipeAction(_SwipeAction, total=False):
    """Swipe on the page or an element"""
    distance: Union[int, None]
    """CSS pixels. If absent, 60 % of the element or of the viewport"""
    duration_ms: Union[int, None]
    """Duration of the movement in milliseconds"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`. If both are absent, the finger swipes on the page"""
    target: Target


class _TapAction(TypedDict):
    kind: Literal['tap']


class TapAction(_TapAction, total=False):
    """Tap on an element, or on a point of the viewport"""
    at: Union[Point, None]
    count: Union[int, None]
    """Number of taps in quick succession"""
    hold_ms: Union[int, None]
    """Milliseconds that the finger stays on the screen, for a long press. If absent, those of the behavioral profile"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`. Both can be absent if `at` is given"""
    target: Target


class TextCondition(TypedDict):
    """Visible text of the page, in any frame"""
    kind: Literal['text']
    text: str
    """Part of the text, compared as the words of a target"""


class _TextTarget(TypedDict):
    text: str
    """Part of the text, case-insensitive"""


class TextTarget(_TextTarget, total=False):
    """Innermost element with a text"""
    exact: Union[bool, None]
    """True to match the whole text only, case-sensitive"""


class TimeCondition(TypedDict):
    """Period of time"""
    kind: Literal['time']
    ms: int
    """Milliseconds to wait"""


class _TokenForm(TypedDict):
    grant_type: str
    """The literal `client_credentials`"""


class TokenForm(_TokenForm, total=False):
    """A token request. A client that uses HTTP Basic authentication leaves out `client_id` and `client_secret`"""
    client_id: Union[str, None]
    client_secret: Union[str, None]
    scope: Union[str, None]
    """Space-separated scopes; all scopes of the client when absent"""


class _TypeAction(TypedDict):
    kind: Literal['type']
    text: str


class TypeAction(_TypeAction, total=False):
    """Type text into an element"""
    delay_ms: Union[int, None]
    """Milliseconds between keys. The delays of the whole text must not exceed the maximum `timeout_ms`"""
    selector: Union[str, None]
    """CSS selector; alternative to `target`"""
    sensitive: Union[bool, None]
    """True to treat the text as sensitive. Text typed into a password field is always sensitive"""
    target: Target


class UpdateAccount(TypedDict):
    """Request body of an account update"""
    name: str
    """Display name of the account owner"""


class UpdateTeam(TypedDict):
    """Request body of a team update"""
    name: str
    """Name of the team"""


class UpdateWebhook(TypedDict, total=False):
    """Request body of a webhook endpoint update; at least one field is required"""
    active: Union[bool, None]
    """True to deliver events, false to pause the endpoint"""
    description: Union[str, None]
    """Description by the account owner; null removes it"""
    events: Union[Sequence[SubscribableEventType], None]
    url: Union[str, None]
    """URL that deliveries are sent to"""


class _UploadAction(TypedDict):
    files: Sequence[UploadFile]
    """Files, of at most 16 MiB in all"""
    kind: Literal['upload']


class UploadAction(_UploadAction, total=False):
    """Give files to a file input, or to the file chooser that an element opens"""
    selector: Union[str, None]
    """CSS selector of a file input, which may be hidden, or of an element that opens a file chooser when it is tapped;
    alternative to `target`. Both can be absent if the last tap has opened a file chooser
    """
    target: Target


class _UploadFile(TypedDict):
    content: str
    """Content of the file in base64"""
    name: str
    """Name that the page sees. Of a path only the last part counts, and hidden characters are removed"""


class UploadFile(_UploadFile, total=False):
    """File of an upload"""
    content_type: Union[str, None]
    """Media type. The page sees the one that a browser derives from the name"""


class UrlMatchesCondition(TypedDict):
    """Address of the page"""
    kind: Literal['url_matches']
    pattern: str
    """Regular expression in the syntax of Rust's regex crate. It may match anywhere in the first 32,768 characters of the
    address. The compiled expression may use at most 1 MiB
    """


class _Wait(TypedDict):
    condition: Condition


class Wait(_Wait, total=False):
    """Body of `wait`"""
    on_timeout: Union[OnTimeout, None]
    timeout_ms: Union[int, None]
    """Timeout in milliseconds. If absent, a `time` condition has a timeout of its `ms` plus 5,000"""


ElementRole = Literal['alert', 'alertdialog', 'application', 'article', 'banner', 'blockquote', 'button', 'caption', 'cell', 'checkbox', 'columnheader', 'combobox', 'complementary', 'contentinfo', 'definition', 'dialog', 'document', 'feed', 'figure', 'form', 'grid', 'gridcell', 'group', 'heading', 'iframe', 'img', 'link', 'list', 'listbox', 'listitem', 'log', 'main', 'marquee', 'math', 'menu', 'menubar', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'meter', 'navigation', 'note', 'option', 'paragraph', 'progressbar', 'radio', 'radiogroup', 'region', 'row', 'rowgroup', 'rowheader', 'scrollbar', 'search', 'searchbox', 'separator', 'slider', 'spinbutton', 'status', 'switch', 'tab', 'table', 'tablist', 'tabpanel', 'term', 'textbox', 'time', 'timer', 'toolbar', 'tooltip', 'tree', 'treegrid', 'treeitem']

PointerKind = Literal['touch', 'mouse']

SwipeDirection = Literal['up', 'down', 'left', 'right']

Target = Union[SelectorTarget, RoleTarget, LabelTarget, TextTarget, PlaceholderTarget, RefTarget, None]

Action = Union[TapAction, HoverAction, SwipeAction, DragAction, CheckAction, ClearAction, FillAction, TypeAction, ScrollAction, PressAction, SelectAction, DialogAction, UploadAction, BackAction, ForwardAction, ReloadAction]

AgentSessionMode = Literal['manual', 'ai', 'pair']

AgentSessionStatus = Literal['active', 'closed']

AuditExportFormat = Literal['csv', 'json']

BehavioralProfile = Literal['casual', 'regular', 'power_user']

CaptureKind = Literal['screenshot', 'dom_snapshot', 'pdf']

CaptureScale = Literal['css', 'device']

ColorScheme = Literal['light', 'dark']

WaitUntil = Literal['load', 'domcontentloaded', 'networkidle']

Condition = Union[SelectorCondition, SelectorHiddenCondition, UrlMatchesCondition, TextCondition, FunctionCondition, ResponseCondition, LoadStateCondition, TimeCondition, PageCondition, DownloadCondition]

DialogPolicy = Literal['dismiss', 'accept', 'hold']

ExtractionTransform = Literal['number']

ExtractionType = Literal['text', 'attribute', 'list', 'box', 'value']

ImageFormat = Literal['png', 'jpeg', 'webp']

LiveRole = Literal['viewer', 'controller']

OnTimeout = Literal['fail', 'return']

OptionalEmail = Literal['signup-welcome', 'session-success-first', 'session-failed-first', 'tier-changed', 'billing-receipt', 'billing-renewal-reminder']

Orientation = Literal['portrait', 'landscape']

PageSnapshotRequest = Mapping[str, Any]

PaidTier = Literal['solo_manual', 'team_manual', 'agency_manual', 'api_starter', 'api_builder', 'api_scale', 'enterprise']

Paper = Literal['a4', 'a5', 'letter', 'legal']

ProxyScheme = Literal['socks5', 'http', 'wireguard', 'openvpn']

RecipeFormat = Literal['json', 'curl', 'python', 'typescript']

ResourceType = Literal['image', 'media', 'font', 'stylesheet', 'script', 'websocket', 'xhr']

SameSite = Literal['strict', 'lax', 'none']

Scope = Literal['read', 'write', 'account_owner', 'read:audit', 'read:sessions', 'write:sessions', 'read:profiles', 'write:profiles', 'read:webhooks', 'read:usage', 'read:agents', 'write:agents']

SessionStatus = Literal['creating', 'ready', 'busy', 'destroyed', 'errored']

SubExtractionType = Literal['text', 'attribute', 'box', 'value']

SubscribableEventType = Literal['session.completed', 'session.failed', 'api_key.revoked', 'session.egress_capability_changed', 'crypto.order.paid', 'crypto.order.failed', 'session.challenge_detected', 'session.profile_save_failed']

TeamRole = Literal['member', 'admin']

WebhookDeliveryStatus = Literal['pending', 'in_flight', 'delivered', 'failed', 'dlq']

