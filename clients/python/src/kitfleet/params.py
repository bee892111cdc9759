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
    content_type: str
    """Media type. The page sees the one that a browser derives from the name"""


class _AgentMessage(TypedDict):
    message: str
    """Instructions in natural language"""


class AgentMessage(_AgentMessage, total=False):
    """Message to an agent session"""
    approvals: Sequence[str]
    """IDs of the intents that this message approves. The plan that they belong to then continues"""


class AgentSessionClient(TypedDict):
    """Client of a person"""
    client_id: str
    """Name of the client; it identifies the client that has control"""


class AgentSessionCreate(TypedDict, total=False):
    """Body of `POST /v1/agent-sessions`; every field is optional"""
    archetype: str
    """Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status
    `launch`
    """
    block: BlockedRequests
    """Requests that the browser does not send"""
    color_scheme: ColorScheme
    """Color scheme that pages see; `light` by default"""
    detect_challenges: bool
    """False if challenges must not pause the session. By default they pause it, if the deployment detects challenges"""
    dialogs: DialogPolicy
    extra_headers: Sequence[ExtraHeader]
    """Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them"""
    geolocation: Geolocation
    """Position that pages of secure origins see; by default they are denied it"""
    label: str
    """Free text"""
    locale: str
    """Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session"""
    mode: AgentSessionMode
    offline: bool
    """True to cut the browser off from the network"""
    orientation: Orientation
    """Orientation of the device; `portrait` by default"""
    profile_id: str
    """Profile that the browser starts from. A profile can have one live session at a time. Requires `write:profiles` in addition
    to `write:agents`
    """
    proxy_id: str
    """Saved proxy of the account. The browser sends all its traffic through it"""
    record: RecordMode
    timezone: str
    """Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
    session, whose browser takes longer to open
    """
    token_budget: int
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
    scopes: Sequence[Scope]
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
    background: bool
    """True to print backgrounds in a PDF"""
    format: ImageFormat
    full_page: bool
    """True to capture the whole document instead of the viewport; for screenshots"""
    landscape: bool
    """True for a PDF whose long side is horizontal"""
    margins: Margins
    paper: Paper
    quality: int
    """Quality of a JPEG or a WebP"""
    reveal: bool
    """True to scroll through the whole page first, so that lazy content loads; for screenshots with `full_page`"""
    scale: CaptureScale
    selector: str
    """CSS selector of an element to capture, for screenshots; alternative to `target`"""
    target: Target


class _ChallengeProof(TypedDict):
    challenge_token: str
    """Token of the login response"""


class ChallengeProof(_ChallengeProof, total=False):
    """Request body of a login challenge"""
    code: str
    """Six-digit code of the authenticator app. Send either this or `recovery_code`"""
    recovery_code: str
    """Recovery code, with or without the hyphen. Send either this or `code`"""


class ChangeEmail(TypedDict):
    """Request body of an e-mail address change"""
    email: str
    """New e-mail address"""
    password: str
    """Current password of the account"""


class _CheckAction(TypedDict):
    kind: Literal['check']


class CheckAction(_CheckAction, total=False):
    """Set the state of a checkbox, a switch or a radio button"""
    checked: bool
    """Wanted state. If the control has it already, nothing happens. A radio button cannot be unchecked"""
    selector: str
    """CSS selector; alternative to `target`"""
    target: Target


class _ClearAction(TypedDict):
    kind: Literal['clear']


class ClearAction(_ClearAction, total=False):
    """Remove the content of a field"""
    selector: str
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
    pay_currency: str
    """Currency of the payment, as the processor names it; default `btc`"""
    price_currency: str
    """Currency of the price: `usd`"""


class _CreateKey(TypedDict):
    name: str
    """Name of the key"""
    scopes: Sequence[Scope]
    """Scopes of the credential; the caller can grant only scopes of their own credential"""


class CreateKey(_CreateKey, total=False):
    """Request body of an API key creation"""
    expires_at: str
    """Time the key expires (RFC 3339); a key without it does not expire"""


class CreateLiveLink(TypedDict, total=False):
    """Validity of a new live link"""
    expires_in: int
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
    description: str
    """Description"""


class CreateTraceLink(TypedDict, total=False):
    """Validity of a new trace link"""
    expires_in: int
    """Validity in seconds; one day by default"""


class _CreateWebhook(TypedDict):
    events: Sequence[SubscribableEventType]
    url: str
    """URL that deliveries are sent to: https, without user name and password"""


class CreateWebhook(_CreateWebhook, total=False):
    """Request body of a webhook endpoint creation"""
    description: str
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
    text: str
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
    duration_ms: int
    """Duration of the movement in milliseconds"""
    path: Sequence[Point]
    pointer: PointerKind
    selector: str
    """CSS selector of the element where the drag starts; alternative to `target`. Both can be absent with `path`"""
    target: Target
    to: DragEnd


class DragEnd(TypedDict, total=False):
    """End of a drag"""
    at: Point
    selector: str
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
    args: Sequence[Any]
    """Arguments, which the script gets as `args`; at most 64 KiB as JSON. By default there are none"""
    on_timeout: OnTimeout
    timeout_ms: int
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
    origins: Sequence[str]
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
    attribute: str
    """Attribute name, for `attribute`"""
    extract: ExtractionExtract
    selector: str
    """CSS selector; alternative to `target`"""
    target: Target
    transform: ExtractionTransform


class _FillAction(TypedDict):
    kind: Literal['fill']
    value: str
    """New content. A field for a date, a time, a color or a range takes the form that HTML defines, such as `2026-11-08`"""


class FillAction(_FillAction, total=False):
    """Replace the content of a field"""
    selector: str
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
    at: Point
    selector: str
    """CSS selector; alternative to `target`. Both can be absent if `at` is given"""
    target: Target


class _InitiateDevice(TypedDict):
    state: str
    """Random nonce chosen by the app"""


class InitiateDevice(_InitiateDevice, total=False):
    """Request body of a device code request"""
    client_label: str
    """Name of the app"""


class _Interact(TypedDict):
    action: Action


class Interact(_Interact, total=False):
    """Body of `interact`"""
    on_timeout: OnTimeout
    timeout_ms: int
    """Timeout in milliseconds. If absent, a `type` action gets an additional 5 ms plus its `delay_ms` for each character, up to
    the maximum
    """


class _LabelTarget(TypedDict):
    label: str
    """Part of the label, case-insensitive"""


class LabelTarget(_LabelTarget, total=False):
    """Control with a label"""
    exact: bool
    """True to match the whole text only, case-sensitive"""


class LinkToken(TypedDict):
    """Request body of the routes that take a mailed link"""
    token: str
    """Token of the mailed link"""


class LiveTicketRequest(TypedDict, total=False):
    """Body of a request for a ticket"""
    client_id: str
    """Name of the controller's client, recorded when it takes over an agent session"""
    role: LiveRole


class LoadStateCondition(TypedDict):
    """State of the load of the page"""
    kind: Literal['load_state']
    state: WaitUntil


class Margins(TypedDict, total=False):
    """Margins of a PDF"""
    bottom: float
    """Millimetres at the bottom"""
    left: float
    """Millimetres at the left"""
    right: float
    """Millimetres at the right"""
    top: float
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
    on_failure: OnTimeout
    on_timeout: OnTimeout
    timeout_ms: int
    """Timeout in milliseconds"""
    wait_until: WaitUntil


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
    exact: bool
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
    name: str
    """Name; by default the source's name with an added word"""


class _ProfileCreate(TypedDict):
    name: str
    """Name; it need not be unique"""


class ProfileCreate(_ProfileCreate, total=False):
    """Body of a profile's creation"""
    archetype: str
    """Archetype ID from `GET /v1/archetypes`. Default: the one with status `launch`"""


class ProfileLaunch(TypedDict, total=False):
    """Body of `POST /v1/profiles/{id}/launch`; every field is optional"""
    behavioral_profile: BehavioralProfile
    block: BlockedRequests
    """Requests that the browser does not send"""
    color_scheme: ColorScheme
    """Color scheme that pages see; `light` by default"""
    detect_challenges: bool
    """False if challenges must not pause the session. By default they pause it, if the deployment detects challenges"""
    dialogs: DialogPolicy
    extra_headers: Sequence[ExtraHeader]
    """Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them"""
    geolocation: Geolocation
    """Position that pages of secure origins see; by default they are denied it"""
    label: str
    """Free text"""
    locale: str
    """Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session"""
    metadata: ProfileLaunchMetadata
    offline: bool
    """True to cut the browser off from the network"""
    orientation: Orientation
    """Orientation of the device; `portrait` by default"""
    purpose: str
    """Purpose: `production_customer`; other values are reserved"""
    record: RecordMode
    timezone: str
    """Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
    session, whose browser takes longer to open
    """
    wait_timeout_ms: int
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
    host: str
    """Host, for `socks5` and `http`: a name or a public address"""
    password: Union[str, None]
    """Password sent to the proxy, 1 to 255 bytes. On replacement, an absent password is kept, and null removes it"""
    port: int
    """Port, for `socks5` and `http`"""
    username: str
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
    status: int
    """HTTP status; any if absent"""


class _RoleTarget(TypedDict):
    role: ElementRole


class RoleTarget(_RoleTarget, total=False):
    """Element with a role"""
    exact: bool
    """True to match the whole text only, case-sensitive"""
    name: str
    """Part of the accessible name, case-insensitive"""


class _ScrollAction(TypedDict):
    kind: Literal['scroll']


class ScrollAction(_ScrollAction, total=False):
    """Scroll the page or a scrollable element"""
    delta_x: int
    """Pixels to the right"""
    delta_y: int
    """Pixels down"""
    selector: str
    """CSS selector; alternative to `target`. If both are absent, the page scrolls"""
    target: Target


class _SelectAction(TypedDict):
    kind: Literal['select']


class SelectAction(_SelectAction, total=False):
    """Select an option of a `<select>` element"""
    option: str
    """Value or label of the option; alternative to `options`"""
    options: Sequence[str]
    """Values or labels of the options. They replace the selection, also of a menu with multiple selection"""
    selector: str
    """CSS selector; alternative to `target`"""
    target: Target


class _SelectorCondition(TypedDict):
    kind: Literal['selector']


class SelectorCondition(_SelectorCondition, total=False):
    """Visible element"""
    selector: str
    """CSS selector; alternative to `target`"""
    target: Target


class _SelectorHiddenCondition(TypedDict):
    kind: Literal['selector_hidden']


class SelectorHiddenCondition(_SelectorHiddenCondition, total=False):
    """Visible element"""
    selector: str
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
    expires: str
    """Time at which the browser deletes the cookie, in the future; by default the cookie lasts as long as the browser"""
    http_only: bool
    """True to hide the cookie from scripts"""
    path: str
    """Path of the cookie"""
    same_site: SameSite
    """`SameSite` of the cookie; `none` by default"""
    secure: bool
    """True to send the cookie over TLS only"""


class SessionCookiesSet(TypedDict):
    """Body of a change of cookies"""
    cookies: Sequence[SessionCookieSet]
    """Cookies to set"""


class SessionCreate(TypedDict, total=False):
    """Body of `POST /v1/sessions`; every field is optional"""
    archetype: str
    """Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status
    `launch`
    """
    behavioral_profile: BehavioralProfile
    block: BlockedRequests
    """Requests that the browser does not send"""
    color_scheme: ColorScheme
    """Color scheme that pages see; `light` by default"""
    detect_challenges: bool
    """False if challenges must not pause the session. By default they pause it, if the deployment detects challenges"""
    dialogs: DialogPolicy
    extra_headers: Sequence[ExtraHeader]
    """Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them"""
    geolocation: Geolocation
    """Position that pages of secure origins see; by default they are denied it"""
    label: str
    """Free text"""
    locale: str
    """Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session"""
    metadata: SessionCreateMetadata
    offline: bool
    """True to cut the browser off from the network"""
    orientation: Orientation
    """Orientation of the device; `portrait` by default"""
    profile_id: str
    """Profile that the session starts from, with the cookies and storage of earlier sessions. A profile can have one live
    session at a time. Requires `write:profiles` in addition to `write:sessions`
    """
    purpose: str
    """Purpose: `production_customer`; other values are reserved"""
    record: RecordMode
    timezone: str
    """Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
    session, whose browser takes longer to open
    """
    wait_timeout_ms: int
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
    password_selector: str
    """CSS selector of the password field; detected automatically if absent"""
    submit_selector: str
    """CSS selector of the submit button; detected automatically if absent"""
    success_selector: str
    """CSS selector of an element that appears after a successful login"""
    timeout_seconds: int
    """Timeout of each step in seconds"""
    username_selector: str
    """CSS selector of the user name field; detected automatically if absent"""


class SessionPageOpen(TypedDict, total=False):
    """Body of a new page; the field is optional"""
    url: str
    """An http or https address; by default the page is blank"""


class _SessionSearch(TypedDict):
    query: str
    """Text to search for"""


class SessionSearch(_SessionSearch, total=False):
    """Body of `search`"""
    search_selector: str
    """CSS selector of the search field; detected automatically if absent"""
    submit: bool
    """True to submit the form"""
    timeout_seconds: int
    """Timeout of each step in seconds"""
    wait_for_results_selector: str
    """CSS selector of an element that appears with the results"""


class SessionToken(TypedDict):
    """Request body of refresh and logout"""
    token: str
    """Token of the web session"""


class SetPassword(TypedDict):
    """Request body of a password change"""
    current_password: str
    """Current password of the account"""
    new_password: str
    """New password, at least 12 characters"""


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
    label: str
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
    attribute: str
    """Attribute name, for `attribute`"""


class _SwipeAction(TypedDict):
    direction: SwipeDirection
    kind: Literal['swipe']


class SwipeAction(_SwipeAction, total=False):
    """Swipe on the page or an element"""
    distance: int
    """CSS pixels. If absent, 60 % of the element or of the viewport"""
    duration_ms: int
    """Duration of the movement in milliseconds"""
    selector: str
    """CSS selector; alternative to `target`. If both are absent, the finger swipes on the page"""
    target: Target


class _TapAction(TypedDict):
    kind: Literal['tap']


class TapAction(_TapAction, total=False):
    """Tap on an element, or on a point of the viewport"""
    at: Point
    count: int
    """Number of taps in quick succession"""
    hold_ms: int
    """Milliseconds that the finger stays on the screen, for a long press. If absent, those of the behavioral profile"""
    selector: str
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
    exact: bool
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
    client_id: str
    client_secret: str
    scope: str
    """Space-separated scopes; all scopes of the client when absent"""


class _TypeAction(TypedDict):
    kind: Literal['type']
    text: str


class TypeAction(_TypeAction, total=False):
    """Type text into an element"""
    delay_ms: int
    """Milliseconds between keys. The delays of the whole text must not exceed the maximum `timeout_ms`"""
    selector: str
    """CSS selector; alternative to `target`"""
    sensitive: bool
    """True to treat the text as sensitive. Text typed into a password field is always sensitive"""
    target: Target


class UpdateAccount(TypedDict):
    """Request body of an account update"""
    name: str
    """Display name of the account owner"""


class UpdateKey(TypedDict):
    """Request body of an API key update"""
    name: str
    """Name of the key"""


class UpdateMembership(TypedDict):
    """Request body of a membership update"""
    role: TeamRole


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
    selector: str
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
    content_type: str
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
    on_timeout: OnTimeout
    timeout_ms: int
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

EventType = str

SubExtractionType = Literal['text', 'attribute', 'box', 'value']

ExtractionExtract = Mapping[str, SubExtraction]

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

ProfileLaunchMetadata = Mapping[str, Any]

ProxyScheme = Literal['socks5', 'http', 'wireguard', 'openvpn']

RecipeFormat = Literal['json', 'curl', 'python', 'typescript']

RecordMode = Literal['off', 'steps']

ResourceType = Literal['image', 'media', 'font', 'stylesheet', 'script', 'websocket', 'xhr']

SameSite = Literal['strict', 'lax', 'none']

Scope = Literal['read', 'write', 'account_owner', 'read:audit', 'read:sessions', 'write:sessions', 'read:profiles', 'write:profiles', 'read:webhooks', 'read:usage', 'read:agents', 'write:agents']

SessionCreateMetadata = Mapping[str, Any]

SessionStatus = Literal['creating', 'ready', 'busy', 'destroyed', 'errored']

SubscribableEventType = Literal['session.completed', 'session.failed', 'api_key.revoked', 'session.egress_capability_changed', 'crypto.order.paid', 'crypto.order.failed', 'session.challenge_detected', 'session.profile_save_failed']

TeamRole = Literal['member', 'admin']

UsageDimension = Literal['api_key', 'archetype', 'label']

WebhookDeliveryStatus = Literal['pending', 'in_flight', 'delivered', 'failed', 'dlq']

