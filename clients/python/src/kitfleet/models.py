"""Results of the API.

Generated from openapi.json by clients/generate/generate.py. Do not edit.
"""

from __future__ import annotations

from typing import Any, ClassVar, Dict, List, Literal, Mapping, Optional, Tuple, Union

from ._model import Model, Registry


class AcceptedInvite(Model):
    """Result of an accepted invitation"""
    _nested: ClassVar[Mapping[str, str]] = {'membership': 'Membership'}
    membership: Membership


class AccountLimits(Model):
    """Limits of an account"""
    concurrent_sessions: int
    """Maximum number of live sessions at the same time"""
    profiles: int
    """Maximum number of profiles"""


class ActivatePageIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'page': 'IntentPage'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['activate_page']
    page: IntentPage


class ActivatePageRecipeStep(Model):
    """Page of the browser"""
    description: str
    """Human-readable description of the page"""
    kind: Literal['activate_page']
    position: int
    """Position in the list of pages, counted from 1"""


class AddedHeader(Model):
    """A header that is added to requests, without its value"""
    name: str
    """Name of the header"""
    origins: Union[List[str], None]
    """Origins that receive the header; null for all"""


class AgentDownload(Model):
    """Download that began during a turn"""
    bytes: int
    """Number of bytes received until the end of the turn"""
    file_name: str
    """Suggested name of the file"""
    id: str
    """ID of the download"""
    status: DownloadStatus
    """Progress of the download at the end of the turn"""


class AgentFile(Model):
    """File that is attached to an agent session"""
    id: str
    """ID of the file"""
    name: str
    """Name by which messages refer to the file"""


class AgentSession(Model):
    """Browser driven by natural-language messages"""
    account_id: str
    """Account that owns the agent session"""
    archetype: str
    """Archetype of the browser"""
    close_reason: Union[AgentSessionCloseReason, None]
    control: AgentSessionControl
    created_at: str
    """Time the agent session was requested"""
    destroyed_at: Union[str, None]
    """Time the agent session was closed"""
    id: str
    """Agent session ID"""
    label: Union[str, None]
    """Label set by the customer"""
    mode: AgentSessionMode
    profile_id: Union[str, None]
    """Profile that the browser started from"""
    proxy_id: Union[str, None]
    """Saved proxy of the browser; it may have been deleted since"""
    session_id: str
    """Driver session: the ordinary session that holds the browser"""
    status: AgentSessionStatus
    token_budget: int
    """Maximum number of model tokens"""
    tokens_used: int
    """Model tokens used so far"""
    updated_at: str
    """Time of the last change"""


class AgentSessionList(Model):
    """A page of agent sessions, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'AgentSession'}
    data: List[AgentSession]
    """The agent sessions"""
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class AgentTranscript(Model):
    """A page of a transcript, oldest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'AgentTranscriptEntry'}
    data: List[AgentTranscriptEntry]
    """The messages and replies"""
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class AgentTranscriptEntry(Model):
    """Message, or reply to a message"""
    _nested: ClassVar[Mapping[str, str]] = {'candidates': 'Candidate', 'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog', 'downloads': 'AgentDownload', 'intents': 'AgentIntent'}
    _optional: ClassVar[Tuple[str, ...]] = ('candidates', 'decomposer', 'dialog', 'dialogs', 'downloads', 'intents', 'kind', 'message', 'reply')
    candidates: Optional[List[Candidate]]
    """Elements the message may refer to"""
    created_at: str
    """Time of the message or reply"""
    decomposer: Optional[str]
    """Component that interpreted the message"""
    dialog: Optional[OpenDialog]
    """Dialog that waited for an answer at the end of the turn"""
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that pages showed during the turn, at most 20, and their answers"""
    downloads: Optional[List[AgentDownload]]
    """Downloads that began during the turn, at most 20"""
    intents: Optional[List[AgentIntent]]
    """Steps of the turn"""
    kind: Optional[str]
    """Outcome of the turn"""
    message: Optional[str]
    """Text of the message, without the texts to type"""
    reply: Optional[str]
    """Reply in natural language"""
    role: str
    """`user` or `agent`"""
    tokens_used: int
    """Tokens that a model used for the turn"""
    turn_id: str
    """Turn ID; a turn is a message and its reply"""


class AgentTurn(Model):
    """Outcome of a message"""
    _nested: ClassVar[Mapping[str, str]] = {'candidates': 'Candidate', 'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog', 'downloads': 'AgentDownload', 'intents': 'AgentIntent'}
    _optional: ClassVar[Tuple[str, ...]] = ('candidates', 'dialog', 'dialogs', 'downloads')
    candidates: Optional[List[Candidate]]
    """Elements the message may refer to if it is ambiguous, at most five"""
    dialog: Optional[OpenDialog]
    """Dialog that waits for an answer at the end of the turn; absent if there is none"""
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that pages showed during the turn, at most 20, and their answers; absent if there was none"""
    downloads: Optional[List[AgentDownload]]
    """Downloads that began during the turn, at most 20; absent if there was none"""
    intents: List[AgentIntent]
    """Steps of the turn, in order"""
    kind: str
    """`plan`: the message had steps to perform; `clarify`: the message was ambiguous; `refuse`: the request was refused"""
    reply: str
    """Reply in natural language"""
    tokens_used: int
    """Tokens that a model used for the turn"""
    turn_id: str
    """Turn ID"""


class AnsweredDialog(Model):
    """Dialog that a page showed and that was answered"""
    accepted: bool
    """True if the dialog was accepted"""
    message: str
    """Message, limited to its first 1,024 characters"""
    type: DialogType


class ApiKey(Model):
    """An API key"""
    account_id: str
    """Account that owns the key"""
    created_at: str
    """Time the key was created (RFC 3339)"""
    created_by_account_id: Union[str, None]
    """Account that created the key; null when staff created it"""
    expires_at: Union[str, None]
    """Time the key expires (RFC 3339); null when it does not expire"""
    id: str
    """API key ID"""
    key_prefix: str
    """First 12 characters of the key"""
    last_used_at: Union[str, None]
    """Time the key was last used (RFC 3339)"""
    name: str
    """Name of the key"""
    revoked_at: Union[str, None]
    """Time the key was revoked (RFC 3339)"""
    scopes: List[str]
    """Scopes of the key"""


class ApiKeyList(Model):
    """A page of API keys, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'ApiKey'}
    data: List[ApiKey]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class ApiKeyRevoked(Model):
    """The `data` of `api_key.revoked`"""
    api_key_id: str
    """API key ID"""
    name: str
    """Name of the key"""
    revoked_at: str
    """Time the key was revoked (RFC 3339)"""


class ApiKeyRevokedEvent(Model):
    """An API key was revoked"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'ApiKeyRevoked'}
    id: str
    """Event ID; it is the same in every attempt"""
    type: Literal['api_key.revoked']
    created_at: str
    """Time of the event"""
    data: ApiKeyRevoked


class Archetype(Model):
    """Device, with its operating system and browser"""
    canvas_family: str
    """Family of devices with the same canvas rendering"""
    device: str
    display_label: str
    """Human-readable name"""
    id: str
    """Value accepted as `archetype`"""
    ios_version: str
    is_default: bool
    """True if this is the default archetype of a create"""
    safari_version: str
    status: ArchetypeStatus


class ArchetypeList(Model):
    """Archetype catalogue"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Archetype'}
    data: List[Archetype]
    default_archetype_id: str
    """Default archetype of a create"""


class AuditEntry(Model):
    """An entry of the audit log"""
    account_id: str
    """Account that the entry belongs to"""
    action: AuditAction
    actor_account_id: Union[str, None]
    """Account of the actor; differs from `account_id` when a team member acted"""
    actor_key_id: Union[str, None]
    """API key of the actor; null for web sessions, the system and staff"""
    actor_type: AuditEntryActorType
    id: str
    """Entry ID, a UUID without a prefix"""
    ip_address: Union[str, None]
    """IP address of the request; null when another account acted"""
    payload: AuditEntryPayload
    target_resource_id: Union[str, None]
    """Resource that the action applied to"""
    timestamp: str
    """Time of the action (RFC 3339)"""
    user_agent: Union[str, None]
    """User agent of the request; null when another account acted"""


class AuditExport(Model):
    """An export of the audit log"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'AuditEntry'}
    account_id: str
    """Account that the log belongs to"""
    data: List[AuditEntry]
    """The entries, newest first"""
    generated_at: str
    """Time the export was made (RFC 3339)"""
    row_count: int
    """Number of entries"""
    truncated: bool
    """True when older entries were left out"""


class AuditPage(Model):
    """A page of the audit log, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'AuditEntry'}
    data: List[AuditEntry]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class BackIntent(Model):
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['back']


class BackRecipeStep(Model):
    """No parameters"""
    kind: Literal['back']


class BillingSubscription(Model):
    """The subscription of an account"""
    cancel_at_period_end: Union[bool, None]
    """True when the subscription ends with the current period"""
    current_period_end: Union[str, None]
    """End of the current billing period (RFC 3339)"""
    provider: Union[str, None]
    """Payment method: `card`"""
    status: Union[str, None]
    """Status at the card provider, such as `active`, `past_due` or `canceled`. It and the fields below are null without a
    subscription
    """
    tier: AccountTier


class BlockedRequests(Model):
    """Requests that the browser does not send"""
    _optional: ClassVar[Tuple[str, ...]] = ('hosts', 'resource_types')
    hosts: Optional[List[str]]
    """Hosts without a scheme, a port or a wildcard. A host covers its subdomains"""
    resource_types: Optional[List[ResourceType]]
    """Types of blocked requests"""


class BoundDevice(Model):
    """Result of an authorization"""
    bound: bool
    """Always true"""
    client_label: Union[str, None]
    """Name of the app"""


class BundledLlmConsent(Model):
    """Consent to the use of the deployment's model key"""
    consented: bool
    """True when agent sessions may use the model that the deployment pays for. It applies to accounts without a provider key"""


class Candidate(Model):
    """Element that matches an ambiguous target"""
    description: str
    """Human-readable description, such as `button "Sign in"`"""
    selector: str
    """CSS selector that matches only this element"""


class CaptureIntent(Model):
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['capture']
    capture: CaptureKind


class CaptureRecipeStep(Model):
    """Capture the page"""
    capture: CaptureKind
    kind: Literal['capture']


class Captured(Model):
    """Capture of a page"""
    bytes: int
    """Size of the content in bytes, before encoding"""
    content: str
    content_type: str
    duration_ms: int
    encoding: CapturedEncoding
    kind: str
    url: str
    """Address of the page"""


class Challenge(Model):
    """A challenge that a page presents to its visitor"""
    confidence: float
    """Confidence of the detection"""
    detail: str
    """Evidence for the detection"""
    type: ChallengeType


class ChallengeMet(Model):
    """Result of a login challenge"""
    _nested: ClassVar[Mapping[str, str]] = {'session': 'WebSession'}
    session: WebSession
    """The web session"""
    via: SecondFactor


class ChangedEmail(Model):
    """Result of a confirmed e-mail address change"""
    email: str
    """New e-mail address of the account"""


class CheckIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['check']
    target: IntentTarget
    checked: bool
    """Wanted state"""


class CheckRecipeStep(Model):
    """Set the state of a checkbox or a switch"""
    checked: bool
    """Wanted state"""
    description: str
    """Human-readable description of the element"""
    kind: Literal['check']
    selector: str
    """CSS selector"""


class CheckoutSession(Model):
    """A checkout session of the card provider"""
    checkout_url: str
    """Payment page of the card provider"""
    provider_session_id: str
    """The provider's ID of the checkout session"""


class ClosePageIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'page': 'IntentPage'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['close_page']
    page: IntentPage


class ClosePageRecipeStep(Model):
    """Page of the browser"""
    description: str
    """Human-readable description of the page"""
    kind: Literal['close_page']
    position: int
    """Position in the list of pages, counted from 1"""


class ConfirmationRequired(Model):
    """Confirmation request: the e-mail address has an account that is not linked to the identity provider"""
    confirmation_required: bool
    """Always true"""
    expires_at: str
    """Time the mailed link expires (RFC 3339)"""


class ConsoleEntry(Model):
    """Line of the console"""
    at: str
    """Time of the line"""
    level: str
    """Level: `debug`, `info`, `log`, `warning` or `error`"""
    line: Union[int, None]
    """Line of the script"""
    seq: int
    """Number of the event"""
    source: str
    """Source: `console`, `script`, `network`, `security` or `other`"""
    text: str
    """Text, limited to its first 2,000 characters"""
    url: Union[str, None]
    """Address of the script or page"""


class ConsoleList(Model):
    """A page of console lines, oldest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'ConsoleEntry'}
    data: List[ConsoleEntry]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class CreatedWebhook(Model):
    """A webhook endpoint with its signing secret, which is returned only once"""
    _nested: ClassVar[Mapping[str, str]] = {'delivery_counts': 'DeliveryCounts'}
    active: bool
    """True when events are delivered; false while the endpoint is paused and after it was disabled"""
    consecutive_failures: int
    """Number of consecutive deliveries that ended in the dead-letter state"""
    created_at: str
    """Time the endpoint was created (RFC 3339)"""
    delivery_counts: DeliveryCounts
    """Number of ended deliveries by result"""
    description: Union[str, None]
    """Description by the account owner"""
    disabled_at: Union[str, None]
    """Time the endpoint was disabled permanently (RFC 3339)"""
    events: List[SubscribableEventType]
    id: str
    """Webhook endpoint ID"""
    last_failure_at: Union[str, None]
    """Time of the last failed attempt (RFC 3339)"""
    last_success_at: Union[str, None]
    """Time of the last successful delivery (RFC 3339)"""
    prev_secret_prefix: Union[str, None]
    """First characters of the previous secret, while it still signs deliveries"""
    rotation_grace_expires_at: Union[str, None]
    """Time the previous secret stops signing (RFC 3339)"""
    secret_prefix: str
    """First characters of the signing secret"""
    url: str
    """URL that deliveries are sent to"""
    secret: str
    """Signing secret: the HMAC key is exactly this text"""


class CryptoOrder(Model):
    """A one-time payment for one period of a tier"""
    created_at: str
    """Time the order was created (RFC 3339)"""
    expires_at: str
    """End of the payment window (RFC 3339)"""
    failed_at: Union[str, None]
    """Time the order failed (RFC 3339)"""
    id: str
    """Order ID"""
    paid_at: Union[str, None]
    """Time the order was paid (RFC 3339)"""
    paid_until: Union[str, None]
    """End of the paid period (RFC 3339)"""
    pay_address: Union[str, None]
    """Address to pay to"""
    pay_amount: Union[float, None]
    """Amount to pay"""
    pay_currency: str
    """Currency of the payment"""
    payment_id: Union[str, None]
    """The processor's ID of the payment"""
    price_cents: int
    """Price in cents"""
    price_currency: str
    """Currency of the price"""
    product: PaidTier
    reason: Union[CryptoOrderFailedReason, None]
    status: CryptoOrderStatus


class CryptoOrderFailed(Model):
    """The `data` of `crypto.order.failed`"""
    failed_at: str
    """Time the order failed (RFC 3339)"""
    order_id: str
    """Order ID"""
    payment_id: str
    """Payment ID at the payment processor"""
    price_cents: int
    """Price in cents"""
    price_currency: str
    """Currency of the price"""
    product: str
    """Tier of the order"""
    reason: CryptoOrderFailedReason


class CryptoOrderFailedEvent(Model):
    """A crypto order failed"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'CryptoOrderFailed'}
    id: str
    """Event ID; it is the same in every attempt"""
    type: Literal['crypto.order.failed']
    created_at: str
    """Time of the event"""
    data: CryptoOrderFailed


class CryptoOrderList(Model):
    """A page of crypto orders, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'CryptoOrder'}
    data: List[CryptoOrder]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class CryptoOrderPaid(Model):
    """The `data` of `crypto.order.paid`"""
    order_id: str
    """Order ID"""
    paid_at: str
    """Time the order was paid (RFC 3339)"""
    payment_id: str
    """Payment ID at the payment processor"""
    price_cents: int
    """Price in cents"""
    price_currency: str
    """Currency of the price"""
    product: str
    """Tier that was bought"""


class CryptoOrderPaidEvent(Model):
    """A crypto order was paid"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'CryptoOrderPaid'}
    id: str
    """Event ID; it is the same in every attempt"""
    type: Literal['crypto.order.paid']
    created_at: str
    """Time of the event"""
    data: CryptoOrderPaid


class DayTotals(Model):
    """Usage on a day by record type; absent types have no usage"""
    _optional: ClassVar[Tuple[str, ...]] = ('interact', 'navigate', 'screenshot_capture', 'session_minute', 'state_capture', 'wait')
    interact: Optional[int]
    navigate: Optional[int]
    screenshot_capture: Optional[int]
    session_minute: Optional[int]
    state_capture: Optional[int]
    wait: Optional[int]


class DeliveryCounts(Model):
    """Number of ended deliveries by result"""
    delivered: int
    """Successful deliveries"""
    dlq: int
    """Deliveries whose attempts all failed (dead letters)"""
    failed: int
    """Deliveries that ended because the endpoint was deleted or disabled"""


class DeliveryList(Model):
    """A page of deliveries, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'WebhookDelivery'}
    data: List[WebhookDelivery]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class DeviceExchangeBound(Model):
    """The API key, returned only once"""
    account_id: str
    """Account that owns the key"""
    api_key: str
    """The secret key"""
    status: Literal['bound']


class DeviceExchangeExpired(Model):
    """The code is unknown, expired or already exchanged"""
    status: Literal['expired']


class DeviceExchangePending(Model):
    """No person has authorized the app yet"""
    status: Literal['pending']


class DialogIntent(Model):
    _optional: ClassVar[Tuple[str, ...]] = ('dialog', 'text')
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['dialog']
    accept: bool
    """True to accept the dialog, false to dismiss it"""
    text: Optional[str]
    """Always `•••`: an answer to a prompt is never returned"""
    dialog: Optional[str]
    """Human-readable description of the dialog"""


class DialogRecipeStep(Model):
    """Answer the dialog of the page. A text for a prompt is never returned"""
    accept: bool
    """True to accept it, false to dismiss it"""
    kind: Literal['dialog']
    sensitive: bool
    """True if a text answers a prompt"""


class Download(Model):
    """File that a page has downloaded"""
    bytes: int
    """Number of bytes received so far"""
    content_type: Union[str, None]
    """Media type of the response; null if there is none"""
    created_at: str
    """Time the download began"""
    error: Union[DownloadError, None]
    file_name: str
    """Name that the server or the page suggests, without a path and without hidden characters, of at most 255 bytes"""
    id: str
    """ID of the download"""
    status: DownloadStatus
    """Progress of the download"""
    url: str
    """Address of the file, limited to its first 32,768 characters"""


class DownloadList(Model):
    """Downloads of a session"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Download'}
    data: List[Download]
    """Downloads of all pages, oldest first"""


class DownloadRecipeCondition(Model):
    """No parameters"""
    kind: Literal['download']


class DownloadRef(Model):
    """Download that an operation has started or waited for"""
    file_name: str
    """Suggested name of the file"""
    id: str
    """ID of the download"""


class DragIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget', 'to': 'IntentTarget'}
    _optional: ClassVar[Tuple[str, ...]] = ('delta_x', 'delta_y', 'to')
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['drag']
    target: IntentTarget
    to: Optional[IntentTarget]
    delta_x: Optional[int]
    """CSS pixels to the right; absent if there is a `to`"""
    delta_y: Optional[int]
    """CSS pixels down; absent if there is a `to`"""


class DragRecipeStep(Model):
    """Drag an element to another one, or along a path"""
    _optional: ClassVar[Tuple[str, ...]] = ('path', 'to')
    description: str
    """Human-readable description of the element"""
    kind: Literal['drag']
    path: Optional[List[Dict[str, Any]]]
    """Points from the top left corner of the element, in CSS pixels; absent if there is a `to`"""
    selector: str
    """CSS selector"""
    to: Optional[Dict[str, Any]]


class EgressCapabilities(Model):
    """Capabilities of a session's egress"""
    dns_remote_resolve: bool
    """True when the proxy resolves host names"""
    quic_route: str
    """Route of QUIC traffic"""
    udp_associate: bool
    """True when the proxy relays UDP datagrams"""
    warnings: List[str]
    """Warnings about unexpected behaviour"""


class EmailPreference(Model):
    """An e-mail preference"""
    event_type: OptionalEmail
    opted_in: bool
    """True when the account receives these mails, which is the default"""


class EmailPreferenceList(Model):
    """All kinds of mail with an opt-out"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'EmailPreference'}
    data: List[EmailPreference]


class Evaluated(Model):
    """Outcome of a script"""
    _nested: ClassVar[Mapping[str, str]] = {'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog', 'exception': 'ScriptException'}
    _optional: ClassVar[Tuple[str, ...]] = ('dialog', 'dialogs', 'timed_out')
    dialog: Optional[OpenDialog]
    """Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. `value` is then null"""
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none"""
    duration_ms: int
    exception: Union[ScriptException, None]
    timed_out: Optional[bool]
    """True if the script timed out with `on_timeout: return`; it may still be running"""
    url: str
    """Address of the page after the script"""
    value: Any
    """JSON of the returned value, as `JSON.stringify` makes it. `undefined`, functions and symbols are null, and an element is
    `{}`. A value of more than 8 MiB is not returned: the request fails with 502 `driver-error`, with `bytes` and `limit_bytes`,
    and the session stays ready
    """


class ExtractIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'items': 'IntentExtraction'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['extract']
    items: List[IntentExtraction]


class ExtractRecipeStep(Model):
    """Extract values from the page"""
    items: List[Dict[str, Any]]
    kind: Literal['extract']


class Extracted(Model):
    """Extracted values"""
    _nested: ClassVar[Mapping[str, str]] = {'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog'}
    _optional: ClassVar[Tuple[str, ...]] = ('dialog', 'dialogs')
    dialog: Optional[OpenDialog]
    """Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. `value` is then null"""
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none"""
    value: Union[ExtractedValue, None]


class FillIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['fill']
    target: IntentTarget
    value: str
    """Always `•••`: a text to type is never returned"""


class FillRecipeStep(Model):
    """Type text into an element. The text is never returned"""
    description: str
    """Human-readable description of the element"""
    kind: Literal['fill']
    selector: str
    """CSS selector"""
    sensitive: Literal[True]


class ForwardIntent(Model):
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['forward']


class ForwardRecipeStep(Model):
    """No parameters"""
    kind: Literal['forward']


class Geolocation(Model):
    """Position that the Geolocation API reports"""
    accuracy: float
    """Accuracy in meters"""
    latitude: float
    """Degrees north"""
    longitude: float
    """Degrees east"""


class Health(Model):
    """The process is alive"""
    status: str


class HoverIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['hover']
    target: IntentTarget


class HoverRecipeStep(Model):
    """Element"""
    description: str
    """Human-readable description of the element"""
    kind: Literal['hover']
    selector: str
    """CSS selector"""


class Incident(Model):
    """An incident"""
    _nested: ClassVar[Mapping[str, str]] = {'updates': 'IncidentUpdate'}
    components: List[str]
    """Affected components"""
    created_at: str
    """Time the incident was posted (RFC 3339)"""
    id: str
    """Incident ID"""
    impact: IncidentImpact
    resolved_at: Union[str, None]
    """Time the incident was resolved (RFC 3339); null while it is open"""
    status: IncidentStatus
    title: str
    """Title of the incident"""
    updated_at: str
    """Time of the last update (RFC 3339)"""
    updates: List[IncidentUpdate]
    """Updates, newest first"""


class IncidentUpdate(Model):
    """An update of an incident"""
    created_at: str
    """Time of the update (RFC 3339)"""
    message: str
    """Text of the update"""
    status: IncidentStatus


class InitiatedDevice(Model):
    """A device code"""
    browser_url: str
    """Page where the user enters `user_code`"""
    code: str
    """Code that the app exchanges for its key, once"""
    user_code: str
    """Code that the app shows to the user"""


class IntentCondition(Model):
    """Condition that a step waits for"""
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    _optional: ClassVar[Tuple[str, ...]] = ('ms', 'pattern', 'target')
    kind: IntentConditionKind
    target: Optional[IntentTarget]
    pattern: Optional[str]
    """Regular expression, for `url_matches`"""
    ms: Optional[int]
    """Milliseconds, for `time`"""


class IntentExtraction(Model):
    """Value to extract"""
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    name: str
    """Key of the value in the result"""
    target: IntentTarget
    attribute: Union[str, None]
    """Attribute to read; the text if null"""
    list: bool
    """True to read every match"""


class IntentPage(Model):
    """Page of the browser"""
    id: Union[str, None]
    """Page ID; null until the page is found"""
    description: str
    """Human-readable description of the page"""


class IntentStep(Model):
    """Members of every step"""
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""


class IntentTarget(Model):
    """Element that a step applies to"""
    selector: Union[str, None]
    """CSS selector; null until the element is found"""
    description: str
    """Human-readable description of the element"""


class Interacted(Model):
    """Outcome of an interaction"""
    _nested: ClassVar[Mapping[str, str]] = {'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog'}
    _optional: ClassVar[Tuple[str, ...]] = ('delivered', 'dialog', 'dialogs', 'reason')
    delivered: Optional[bool]
    """With `ok: false`, true if the page has received input, such as a part of the text"""
    dialog: Optional[OpenDialog]
    """Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise"""
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none"""
    duration_ms: int
    kind: str
    """Kind of the action"""
    ok: bool
    """False only if the action timed out with `on_timeout: return`, or if a dialog ended it"""
    reason: Optional[Obstacle]
    """With `ok: false`, the reason, if it is known: no element matches, or the element is not visible, covered by another one,
    disabled, moving, not editable, outside of the part of the page that can be scrolled to, or has no such option
    """
    url: str
    """Address of the page after the action"""


class Invite(Model):
    """An invitation"""
    accepted_at: Union[str, None]
    """Time the invitation was accepted (RFC 3339); null while it is pending"""
    created_at: str
    """Time the invitation was created (RFC 3339)"""
    expires_at: str
    """Time the invitation expires (RFC 3339)"""
    id: str
    """Invitation ID"""
    invited_by_account_id: str
    """Account that created the invitation"""
    invitee_email: str
    """E-mail address that is invited"""
    owner_account_id: str
    """Account that owns the team"""
    role: TeamRole


class InviteList(Model):
    """Pending invitations, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Invite'}
    data: List[Invite]


class LinkedIdentity(Model):
    """An account at an identity provider that can sign in to the caller's account"""
    created_at: str
    """Time the identity was linked (RFC 3339)"""
    display_name: Union[str, None]
    """Name of the provider for people; null if the deployment no longer has the provider"""
    id: str
    """ID of the link"""
    provider: str
    """Name of the provider in addresses"""


class LinkedIdentityList(Model):
    """Linked identities, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'LinkedIdentity'}
    data: List[LinkedIdentity]


class LiveLink(Model):
    """Link to watch a session"""
    created_at: str
    """Time the link was created"""
    expires_at: str
    """Time the link expires"""
    id: str
    """Link ID"""
    session_id: str
    """Session that the link shows"""


class LiveLinkList(Model):
    """All valid links, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'LiveLink'}
    data: List[LiveLink]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class LiveTicket(Model):
    """Ticket for a session's live view"""
    expires_at: str
    """Time the ticket expires"""
    page_url: str
    """Page that connects with this ticket"""
    ticket: str
    """Ticket, valid for one connection. Offer it with the prefix `ticket.` as a WebSocket subprotocol beside `kitfleet.live.v1`"""
    url: str
    """WebSocket address to connect to"""


class LivekitToken(Model):
    """Access to an agent session's LiveKit room"""
    expires_at: str
    """Time the token expires. A client that is already connected stays connected"""
    room: str
    """Room; the token is valid only for this room"""
    token: str
    """JSON Web Token for the LiveKit SDKs"""
    url: str
    """Address of the LiveKit server"""


class LoggedOut(Model):
    """Result of a logout"""
    ok: bool
    """Always true"""


class LoginResult(Model):
    """Outcome of a login"""
    _nested: ClassVar[Mapping[str, str]] = {'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog'}
    _optional: ClassVar[Tuple[str, ...]] = ('dialog', 'dialogs', 'post_login_url')
    credentials_truncated: Union[bool, None]
    """True if typing reached its safety limit; nothing was submitted then"""
    dialog: Optional[OpenDialog]
    """Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The members that are not known are
    then null
    """
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none"""
    duration_ms: int
    logged_in: Union[bool, None]
    """True if the login appears to have worked; an estimate, not proof"""
    post_login_url: Optional[str]
    """Address after the login; absent if nothing was submitted"""
    submitted: Union[bool, None]


class Membership(Model):
    """A membership in a team"""
    accepted_at: str
    """Time the invitation was accepted (RFC 3339)"""
    id: str
    """Membership ID"""
    invited_at: str
    """Time of the invitation (RFC 3339)"""
    invited_by_account_id: str
    """Account that created the invitation"""
    member_account_id: str
    """Account of the member"""
    member_email: str
    """E-mail address of the member"""
    owner_account_id: str
    """Account that owns the team"""
    role: TeamRole


class MembershipList(Model):
    """Members of a team, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Membership'}
    data: List[Membership]


class MfaEnrollment(Model):
    """Enrollment data for an authenticator app, returned only once"""
    algorithm: str
    """Hash algorithm"""
    digits: int
    """Number of digits of a code"""
    otpauth_uri: str
    """Secret as a URI, to display as a QR code"""
    period_seconds: int
    """Validity period of a code in seconds"""
    secret_base32: str
    """Secret as text, to type in"""


class MfaRequired(Model):
    """A second factor is required"""
    challenge_expires_at: str
    """Time the challenge expires (RFC 3339)"""
    challenge_token: str
    """Token to send with the code, once, from the same IP address"""
    mfa_required: Literal[True]


class MfaStatus(Model):
    """Status of the second factor"""
    enrolled: bool
    """True when a second factor is enrolled"""
    enrolled_at: Union[str, None]
    """Time the second factor was enrolled (RFC 3339)"""
    last_used_at: Union[str, None]
    """Time of the last successful proof (RFC 3339)"""
    unused_recovery_codes: int
    """Number of unused recovery codes"""


class MintedKey(Model):
    """An API key with its secret, which is returned only once"""
    _optional: ClassVar[Tuple[str, ...]] = ('rotated_from',)
    account_id: str
    """Account that owns the key"""
    created_at: str
    """Time the key was created (RFC 3339)"""
    created_by_account_id: Union[str, None]
    """Account that created the key; null when staff created it"""
    expires_at: Union[str, None]
    """Time the key expires (RFC 3339); null when it does not expire"""
    id: str
    """API key ID"""
    key_prefix: str
    """First 12 characters of the key"""
    last_used_at: Union[str, None]
    """Time the key was last used (RFC 3339)"""
    name: str
    """Name of the key"""
    revoked_at: Union[str, None]
    """Time the key was revoked (RFC 3339)"""
    scopes: List[str]
    """Scopes of the key"""
    key: str
    """The secret key"""
    rotated_from: Optional[str]
    """The key that this key replaces"""


class MonthTotals(Model):
    """Usage by record type"""
    interact: int
    """Taps, texts, scrolls and keys"""
    navigate: int
    """Pages loaded"""
    screenshot_capture: int
    """Screenshots"""
    session_minute: int
    """Started minutes of sessions"""
    state_capture: int
    """State reads"""
    wait: int
    """Waits"""


class NavigateIntent(Model):
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['navigate']
    url: str
    """Address to open"""


class NavigateRecipeStep(Model):
    """Load a page"""
    kind: Literal['navigate']
    url: str


class Navigated(Model):
    """Outcome of a navigation"""
    _nested: ClassVar[Mapping[str, str]] = {'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog', 'download': 'DownloadRef', 'error': 'PageError'}
    _optional: ClassVar[Tuple[str, ...]] = ('dialog', 'dialogs', 'download', 'error', 'timed_out')
    dialog: Optional[OpenDialog]
    """Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The page may still be loading"""
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none"""
    download: Optional[DownloadRef]
    """Download that the navigation has turned into. The page before it stays"""
    duration_ms: int
    error: Optional[PageError]
    """With `on_failure: return`, the reason why there was no response"""
    final_url: str
    """Address after redirects, limited to its first 32,768 characters like every address that a page can choose"""
    status: Union[int, None]
    """HTTP status of the main document, or of a response that leaves the previous document in place: 204, 205, 304 or a download.
    Null only with `on_failure: return` or `on_timeout: return`, if there was no response, and with `dialog`
    """
    timed_out: Optional[bool]
    """True if the navigation timed out with `on_timeout: return` or `on_failure: return`; the page may still be loading"""
    url: str
    """Address as requested"""


class NewTraceLinkBody(Model):
    """New link to a trace"""
    created_at: str
    """Time the link was created"""
    expires_at: str
    """Time the link expires"""
    id: str
    """ID of the link"""
    url: str
    """Address of the trace. It is returned only in this response"""


class NewlyMadeLiveLink(Model):
    """New link to a session's live view"""
    created_at: str
    """Time the link was created"""
    expires_at: str
    """Time the link expires"""
    id: str
    """Link ID"""
    session_id: str
    """Session that the link shows"""
    url: str
    """Page to open. The address is returned only in this response"""


class Notification(Model):
    """Notification"""
    created_at: str
    """Time of the event"""
    data: NotificationData
    event: str
    """Event name. Clients must tolerate unknown events"""
    id: str
    """Number of the notification, equal to the stream's `id`; later notifications have higher numbers"""


class NotificationList(Model):
    """A page of notifications, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Notification'}
    data: List[Notification]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class OauthClient(Model):
    """A program that requests its own access tokens"""
    _optional: ClassVar[Tuple[str, ...]] = ('client_secret',)
    client_id: str
    """Client ID, `ocl_<uuid>`"""
    client_secret: Optional[str]
    """Secret of the client; only the response of the creation has it"""
    created_at: str
    name: str
    scopes: List[str]
    """Maximum scopes of the client's tokens"""


class OauthClientList(Model):
    """OAuth clients of the account"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'OauthClient'}
    data: List[OauthClient]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class OpenDialog(Model):
    """Dialog that waits for an answer"""
    default_value: Union[str, None]
    """Default value of a prompt, limited to its first 1,024 characters; null for other types"""
    message: str
    """Message, limited to its first 1,024 characters"""
    type: DialogType


class OperationActor(Model):
    """Origin of an operation"""
    id: Union[str, None]
    """ID of the credential, the agent session or the client"""
    type: str
    """Type: `api_key` (also an OAuth token), `web_session`, `agent`, `person`, `webdriver` or `mcp`"""


class OwnAccount(Model):
    """The caller's account"""
    _nested: ClassVar[Mapping[str, str]] = {'limits': 'AccountLimits', 'teams': 'TeamOwner'}
    created_at: str
    """Time the account was created (RFC 3339)"""
    email: str
    """E-mail address of the account"""
    email_verified_at: Union[str, None]
    """Time the e-mail address was verified (RFC 3339); null before that"""
    has_password: bool
    """False for an account whose owner signs in only by links or by another provider"""
    id: str
    """Account ID"""
    limits: AccountLimits
    """Limits of the account: individual limits if set, otherwise those of its tier"""
    mfa_enrolled: bool
    """True when a second factor is enrolled"""
    name: str
    """Display name of the account owner"""
    status: AccountStatus
    teams: List[TeamOwner]
    """Owners of the teams that the account is a member of"""
    tier: AccountTier


class PageError(Model):
    """Error of a page"""
    _optional: ClassVar[Tuple[str, ...]] = ('http_status',)
    http_status: Optional[int]
    """HTTP status, for `http`"""
    kind: PageErrorKind
    message: str


class PageRecipeCondition(Model):
    """No parameters"""
    kind: Literal['page']


class PageResponse(Model):
    """Response that a page has received"""
    status: int
    """HTTP status of the response"""
    url: str
    """Address, limited to its first 32,768 characters"""


class PageSnapshot(Model):
    """Snapshot of a page"""
    _nested: ClassVar[Mapping[str, str]] = {'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog'}
    _optional: ClassVar[Tuple[str, ...]] = ('dialog', 'dialogs')
    dialog: Optional[OpenDialog]
    """Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The members that are not known are
    then null
    """
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none"""
    duration_ms: int
    nodes: Union[int, None]
    """Number of lines"""
    snapshot: Union[str, None]
    """One line for each meaningful element and each text, indented by two spaces for each enclosing element. Names, texts and
    values are JSON strings. At most 40,000 characters
    """
    truncated: Union[bool, None]
    """True if the snapshot omits part of the page"""
    url: str
    """Address of the page"""


class PageState(Model):
    """Load state of the page"""
    _nested: ClassVar[Mapping[str, str]] = {'error': 'PageError'}
    _optional: ClassVar[Tuple[str, ...]] = ('error',)
    error: Optional[PageError]
    """Error of the page; present if `state` is `errored`"""
    state: PageStanding


class Plan(Model):
    """A tier with its price and limits"""
    _nested: ClassVar[Mapping[str, str]] = {'limits': 'PlanLimits'}
    currency: str
    """Currency of the price"""
    limits: PlanLimits
    period: str
    """Period of the price: `month`"""
    price_cents: Union[int, None]
    """Price in cents for a period; null if the tier has no price on this deployment"""
    purchasable: bool
    """True if the tier can be bought"""
    tier: AccountTier


class PlanLimits(Model):
    """Limits of a tier"""
    concurrent_sessions: int
    """Maximum number of live sessions at the same time"""
    profiles: int
    """Maximum number of profiles"""


class PlanList(Model):
    """Plans, from the smallest to the largest"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Plan'}
    data: List[Plan]


class PortalSession(Model):
    """A billing portal session"""
    portal_url: str
    """Page with the account's invoices, cards and subscriptions"""


class PressIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    _optional: ClassVar[Tuple[str, ...]] = ('target',)
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['press']
    key: str
    """Key or chord"""
    target: Optional[IntentTarget]


class PressRecipeStep(Model):
    """Press a key"""
    key: str
    kind: Literal['press']


class Problem(Model):
    """A problem document (RFC 9457)"""
    type: str
    """Kind of problem: address of a page that explains it. The last path segment identifies the kind"""
    code: ProblemCode
    title: str
    """Short name of the kind"""
    status: int
    """HTTP status"""
    detail: str
    """Explanation of this occurrence"""
    instance: str
    """Path of the request"""
    request_id: str
    """Request ID, also in `X-Request-Id`"""


class Profile(Model):
    """Browser data that sessions start from and save back to"""
    account_id: str
    """Account that owns the profile"""
    archetype: str
    """Archetype of the profile's sessions"""
    created_at: str
    """Time the profile was created"""
    deleted_at: Union[str, None]
    """Time the profile was moved to the recycle bin"""
    id: str
    """Profile ID"""
    last_used_at: Union[str, None]
    """Time a session last started from the profile"""
    name: str
    """Name set by the customer"""
    size_bytes: int
    """Size of the stored data in bytes, compressed and sealed"""
    updated_at: str
    """Time of the last change"""


class ProfileList(Model):
    """A page of profiles, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Profile'}
    data: List[Profile]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class ProfileSnapshot(Model):
    """Data of a profile at one moment"""
    created_at: str
    """Time the snapshot was taken"""
    id: str
    """Snapshot ID"""
    label: Union[str, None]
    """Label set by the customer"""
    profile_id: str
    """Profile that the snapshot was taken from"""
    size_bytes: int
    """Size of the stored data in bytes, compressed and sealed"""


class ProfileSnapshotList(Model):
    """A page of snapshots, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'ProfileSnapshot'}
    data: List[ProfileSnapshot]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class ProviderKeyTest(Model):
    """Result of a provider key test"""
    outcome: ProviderKeyTestOutcome


class ProxyCheck(Model):
    """Result of a proxy check"""
    _nested: ClassVar[Mapping[str, str]] = {'capabilities': 'EgressCapabilities'}
    capabilities: Union[EgressCapabilities, None]
    error: Union[str, None]
    """Reason why sessions cannot use the proxy, as text"""
    exit_address: Union[str, None]
    """Public address of sessions that use the proxy, if the deployment determines it"""
    latency_ms: Union[int, None]
    """Milliseconds until the proxy was ready for use"""
    reachable: bool
    """True if a session can use the proxy"""


class Quotas(Model):
    """Quotas by record type; nothing is metered, so each is null"""
    interact: Union[int, None]
    navigate: Union[int, None]
    screenshot_capture: Union[int, None]
    session_minute: Union[int, None]
    state_capture: Union[int, None]
    wait: Union[int, None]


class Readiness(Model):
    """The process is ready"""
    database: str
    encryption_key: ReadinessEncryptionKey
    migrations: str
    status: str
    workers: ReadinessWorkers


class Recipe(Model):
    """Recorded steps of an agent session"""
    account_id: str
    """Account that owns the recipe"""
    agent_session_id: Union[str, None]
    """Agent session that the recipe was created from; null after that is deleted"""
    created_at: str
    """Time the recipe was created"""
    description: str
    """Description set by the customer"""
    id: str
    """Recipe ID"""
    intent_count: int
    """Number of steps"""
    label: str
    """Label set by the customer"""
    updated_at: str
    """Same as `created_at`: a recipe never changes"""


class RecipeList(Model):
    """A page of recipes, newest first, without their steps"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Recipe'}
    data: List[Recipe]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class RecipeSuggestion(Model):
    """Suggested label and description of a recipe"""
    intent_count: int
    """Number of steps that the recipe would have now"""
    suggested_description: str
    """Suggested description, valid for a recipe"""
    suggested_label: str
    """Suggested label, valid for a recipe"""


class RecipeWithSteps(Model):
    """Recipe with its steps"""
    _nested: ClassVar[Mapping[str, str]] = {'intent_log': 'RecipeStep'}
    account_id: str
    """Account that owns the recipe"""
    agent_session_id: Union[str, None]
    """Agent session that the recipe was created from; null after that is deleted"""
    created_at: str
    """Time the recipe was created"""
    description: str
    """Description set by the customer"""
    id: str
    """Recipe ID"""
    intent_count: int
    """Number of steps"""
    label: str
    """Label set by the customer"""
    updated_at: str
    """Same as `created_at`: a recipe never changes"""
    intent_log: List[RecipeStep]


class RecoveryCodes(Model):
    """Recovery codes, returned only once"""
    recovery_codes: List[str]
    """Ten recovery codes; each is valid once"""


class ReloadIntent(Model):
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['reload']


class ReloadRecipeStep(Model):
    """No parameters"""
    kind: Literal['reload']


class RequestEntry(Model):
    """Request of a page"""
    at: str
    """Time the request ended"""
    duration_ms: Union[int, None]
    error: Union[str, None]
    """Failure of the request"""
    frame_url: Union[str, None]
    """Address of the frame that made the request"""
    method: str
    mime_type: Union[str, None]
    request_bytes: Union[int, None]
    resource_type: str
    """Type of the resource, such as `document` or `image`"""
    response_bytes: Union[int, None]
    seq: int
    """Number of the event"""
    status: Union[int, None]
    url: str
    """Address. Values of parameters that are named like secrets are `•••`"""


class RequestList(Model):
    """A page of requests, oldest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'RequestEntry'}
    data: List[RequestEntry]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class RequestedEmailChange(Model):
    """Response of an e-mail address change; it is the same whether or not another account has the address"""
    sent: bool
    """True in every answer"""


class ResolvedChallenge(Model):
    """Challenge and its outcome"""
    challenge_id: str
    """Challenge ID"""
    confidence: float
    """Confidence of the detection, from 0 to 1"""
    detail: str
    """Evidence for the detection, as text"""
    detected_at: str
    """Time the challenge was detected"""
    ended_at: Union[str, None]
    """Time the challenge ended"""
    outcome: Union[ChallengeOutcome, None]
    session_id: str
    """Session in which the challenge appeared"""
    type: ChallengeType


class RevokedWebSessions(Model):
    """Result of signing out all other devices"""
    revoked: int
    """Number of devices signed out"""


class RotatedClientSecret(Model):
    """A new secret of an OAuth client, returned only once"""
    client_id: str
    """ID of the client"""
    client_secret: str
    """New secret of the client"""
    grace_expires_at: str
    """Time the previous secret stops working (RFC 3339)"""


class RotatedSecret(Model):
    """A new signing secret, returned only once"""
    grace_expires_at: str
    """Time the previous secret stops signing (RFC 3339)"""
    id: str
    """Webhook endpoint ID"""
    prev_secret_prefix: str
    """First characters of the previous secret"""
    secret: str
    """New signing secret"""
    secret_prefix: str
    """First characters of the new secret"""


class SavedProxy(Model):
    """Saved proxy, without its secrets"""
    created_at: str
    """Time the proxy was saved"""
    has_config: bool
    """True if a configuration is stored"""
    has_password: bool
    """True if a password is stored"""
    host: str
    """Host of the proxy, or of the server in the tunnel configuration"""
    id: str
    """Proxy ID"""
    label: str
    """Label set by the customer"""
    port: int
    """Port of the proxy or server"""
    scheme: ProxyScheme
    updated_at: str
    """Time of the last change"""
    username: Union[str, None]
    """User name sent to the proxy"""


class SavedProxyList(Model):
    """Saved proxies, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SavedProxy'}
    data: List[SavedProxy]


class ScriptException(Model):
    """Exception of a script"""
    line: Union[int, None]
    """Line of the script, starting at 1; null if the exception is from no line of the script"""
    message: str
    """Message of the error, or the thrown value as text, limited to its first 4,096 characters"""
    name: str
    """Name of the error, such as `TypeError`; `Error` for a thrown value that has no name"""


class ScrollIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    _optional: ClassVar[Tuple[str, ...]] = ('target',)
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['scroll']
    delta_x: int
    """CSS pixels to the right"""
    delta_y: int
    """CSS pixels down"""
    target: Optional[IntentTarget]


class ScrollRecipeStep(Model):
    """Scroll the page or a scrollable element"""
    _optional: ClassVar[Tuple[str, ...]] = ('description', 'selector')
    delta_x: int
    """Pixels to the right"""
    delta_y: int
    """Pixels down"""
    description: Optional[str]
    """Human-readable description of the element"""
    kind: Literal['scroll']
    selector: Optional[str]
    """CSS selector; absent if the page scrolls"""


class SearchResult(Model):
    """Outcome of a search"""
    _nested: ClassVar[Mapping[str, str]] = {'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog'}
    _optional: ClassVar[Tuple[str, ...]] = ('dialog', 'dialogs', 'results_visible')
    dialog: Optional[OpenDialog]
    """Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The members that are not known are
    then null
    """
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none"""
    duration_ms: int
    query_truncated: Union[bool, None]
    """True if typing reached its safety limit; nothing was submitted then"""
    results_visible: Optional[bool]
    """True if the element of `wait_for_results_selector` appeared in time; absent without that selector"""
    submitted: Union[bool, None]


class SelectIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['select']
    target: IntentTarget
    option: str
    """Option to select"""


class SelectRecipeStep(Model):
    """Select an option"""
    description: str
    """Human-readable description of the element"""
    kind: Literal['select']
    option: str
    selector: str
    """CSS selector"""


class SelectorHiddenRecipeCondition(Model):
    """Element, located by a selector or by a query"""
    _optional: ClassVar[Tuple[str, ...]] = ('selector', 'target')
    description: str
    """Human-readable description of the element"""
    kind: Literal['selector_hidden']
    selector: Optional[str]
    """CSS selector; absent if there is a `target`"""
    target: Optional[RecipeWithStepsIntentLogConditionTarget]


class SelectorRecipeCondition(Model):
    """Element, located by a selector or by a query"""
    _optional: ClassVar[Tuple[str, ...]] = ('selector', 'target')
    description: str
    """Human-readable description of the element"""
    kind: Literal['selector']
    selector: Optional[str]
    """CSS selector; absent if there is a `target`"""
    target: Optional[RecipeWithStepsIntentLogConditionTarget]


class SentDelivery(Model):
    """A delivery that was created by this request"""
    delivery_id: str
    """Delivery ID"""
    event_id: str
    """Event ID"""
    event_type: EventType


class SentEmail(Model):
    """Response of the routes that mail a link; it is the same whether or not the address has an account"""
    expires_at: str
    """Time a mailed link expires (RFC 3339)"""
    sent: bool
    """Always true"""


class SentInvite(Model):
    """Result of an invitation"""
    message: str
    """Message for people"""


class ServiceStatus(Model):
    """Status of the service"""
    _nested: ClassVar[Mapping[str, str]] = {'components': 'ShownComponent', 'history': 'ShownDay', 'incidents': 'Incident'}
    components: List[ShownComponent]
    """Components of the service"""
    history: List[ShownDay]
    """Last 90 days in UTC, newest first"""
    incidents: List[Incident]
    """Open incidents, newest first"""
    measured_at: Union[str, None]
    """Time the components were measured (RFC 3339); null when this process has not measured them yet"""
    status: ComponentState


class Session(Model):
    """Session"""
    _nested: ClassVar[Mapping[str, str]] = {'challenge': 'SessionChallenge', 'dialog': 'OpenDialog', 'egress_capabilities': 'EgressCapabilities', 'emulation': 'SessionEmulation', 'error': 'SessionFailure'}
    account_id: str
    """Account that owns the session"""
    agent_session_id: Union[str, None]
    """Agent session that uses the session as its driver; null after that is deleted"""
    api_key_id: Union[str, None]
    """API key that created the session; null if a web session created it"""
    archetype: str
    """Archetype of the browser"""
    challenge: Union[SessionChallenge, None]
    created_at: str
    """Time the session was requested"""
    destroyed_at: Union[str, None]
    """Time the session was destroyed"""
    dialog: Union[OpenDialog, None]
    egress_capabilities: Union[EgressCapabilities, None]
    egress_capability_report: Union[SessionEgressCapabilityReport, None]
    emulation: SessionEmulation
    """Emulation in force, without the values of headers"""
    end_reason: Union[SessionEndReason, None]
    error: Union[SessionFailure, None]
    id: str
    """Session ID"""
    label: Union[str, None]
    """Label set by the customer"""
    last_state_at: Union[str, None]
    """Time of the last successful state read"""
    last_url: Union[str, None]
    """Address of the page after the last recorded operation; null if nothing is recorded"""
    metadata: Union[SessionMetadata, None]
    operation_count: Union[int, None]
    """Number of operations in the recording; null if nothing is recorded"""
    profile_id: Union[str, None]
    """Profile that the session started from; null after that is purged"""
    proxy_id: Union[str, None]
    """Saved proxy that the browser connects through"""
    purpose: str
    """Purpose of the session"""
    record: RecordMode
    status: SessionStatus
    updated_at: str
    """Time of the last change"""


class SessionChallenge(Model):
    """Challenge that pauses a session"""
    challenge_id: str
    """Challenge ID"""
    detected_at: str
    """Time the challenge was detected"""
    type: ChallengeType


class SessionChallengeDetected(Model):
    """The `data` of `session.challenge_detected`"""
    _nested: ClassVar[Mapping[str, str]] = {'challenge': 'Challenge'}
    challenge: Challenge
    """Details of the challenge"""
    challenge_id: str
    """Challenge ID"""
    session_id: str
    """Session ID"""


class SessionChallengeDetectedEvent(Model):
    """A page challenges a session to prove that it is human"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SessionChallengeDetected'}
    id: str
    """Event ID; it is the same in every attempt"""
    type: Literal['session.challenge_detected']
    created_at: str
    """Time of the event"""
    data: SessionChallengeDetected


class SessionCompleted(Model):
    """The `data` of `session.completed`"""
    _optional: ClassVar[Tuple[str, ...]] = ('auto_destroyed', 'reason')
    auto_destroyed: Optional[Literal[True]]
    duration_ms: int
    """Lifetime of the session in milliseconds"""
    reason: Optional[AutoDestroyReason]
    session_id: str
    """Session ID"""


class SessionCompletedEvent(Model):
    """A session was destroyed"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SessionCompleted'}
    id: str
    """Event ID; it is the same in every attempt"""
    type: Literal['session.completed']
    created_at: str
    """Time of the event"""
    data: SessionCompleted


class SessionCookie(Model):
    """Cookie of a session's browser"""
    domain: str
    """Host of the cookie; with a leading dot also its subdomains"""
    expires: Union[str, None]
    """Time at which the browser deletes the cookie, in whole seconds; null for a cookie that lasts as long as the browser"""
    http_only: bool
    """True if scripts cannot read the cookie"""
    name: str
    path: str
    same_site: SameSite
    """`SameSite` of the cookie; `none` also for a cookie without the attribute"""
    secure: bool
    """True if the cookie is sent over TLS only"""
    value: str


class SessionCookies(Model):
    """Cookies of a session's browser"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SessionCookie'}
    data: List[SessionCookie]
    """Cookies of all hosts"""


class SessionEgressCapabilityChanged(Model):
    """The `data` of `session.egress_capability_changed`"""
    _nested: ClassVar[Mapping[str, str]] = {'egress_capabilities': 'EgressCapabilities'}
    egress_capabilities: EgressCapabilities
    """Capabilities of the session's proxy"""
    session_id: str
    """Session ID"""


class SessionEgressCapabilityChangedEvent(Model):
    """The capabilities of a session's proxy are known"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SessionEgressCapabilityChanged'}
    id: str
    """Event ID; it is the same in every attempt"""
    type: Literal['session.egress_capability_changed']
    created_at: str
    """Time of the event"""
    data: SessionEgressCapabilityChanged


class SessionEmulation(Model):
    """Emulation of a session, without the values of its headers"""
    _nested: ClassVar[Mapping[str, str]] = {'block': 'BlockedRequests', 'extra_headers': 'AddedHeader', 'geolocation': 'Geolocation'}
    block: BlockedRequests
    """Requests that the browser does not send"""
    color_scheme: ColorScheme
    """Color scheme that pages see"""
    extra_headers: List[AddedHeader]
    """Headers added to requests, without their values"""
    geolocation: Union[Geolocation, None]
    locale: str
    """Language of the browser"""
    offline: bool
    """True while the browser is cut off from the network"""
    orientation: Orientation
    """Orientation of the device"""
    timezone: Union[str, None]
    """Time zone of the browser; null for the time zone of the worker"""


class SessionFailed(Model):
    """The `data` of `session.failed`"""
    _optional: ClassVar[Tuple[str, ...]] = ('duration_ms',)
    duration_ms: Optional[int]
    """Lifetime of the session in milliseconds; absent when unknown"""
    error_message: str
    """Error message for people"""
    error_name: SessionErrorName
    operation: FailedOperation
    session_id: str
    """Session ID"""


class SessionFailedEvent(Model):
    """A session errored"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SessionFailed'}
    id: str
    """Event ID; it is the same in every attempt"""
    type: Literal['session.failed']
    created_at: str
    """Time of the event"""
    data: SessionFailed


class SessionFailure(Model):
    """Error that ended a session"""
    message: str
    """Message for people"""
    name: SessionErrorName


class SessionList(Model):
    """A page of sessions, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Session'}
    data: List[Session]
    """The sessions"""
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class SessionOperation(Model):
    """Operation of a session"""
    _nested: ClassVar[Mapping[str, str]] = {'actor': 'OperationActor'}
    action: str
    """Precise name, such as `tap` or `screenshot`"""
    actor: Union[OperationActor, None]
    description: str
    """Operation in words. It contains no typed text"""
    duration_ms: Union[int, None]
    ended_at: Union[str, None]
    """Time of the end"""
    error: Union[str, None]
    """Detail of an outcome that is not `done`"""
    has_frames: bool
    """True if the recording has a picture after the operation"""
    id: str
    """ID of the operation"""
    kind: str
    """Kind of the operation, as in `session.failed`"""
    outcome: str
    """Outcome: `done` (also with `ok: false` or `matched: false`), `failed`, `timeout`, `invalid`, `withheld`, `destroyed`,
    `unknown` or `running`
    """
    started_at: Union[str, None]
    """Time the browser began"""
    url: Union[str, None]
    """Address of the page after the operation, if it is known"""


class SessionOperationList(Model):
    """A page of operations, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SessionOperation'}
    data: List[SessionOperation]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class SessionPage(Model):
    """Page of a session"""
    active: bool
    """True for the page that operations act on"""
    id: str
    """Page ID"""
    opener_id: Union[str, None]
    """Page that opened this one by a link or a script, and may be closed; null if there is none"""
    title: Union[str, None]
    """Title of the page, limited to its first 4,096 characters"""
    url: str
    """Address of the page, limited to its first 32,768 characters"""


class SessionPages(Model):
    """Pages of a session, oldest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SessionPage'}
    data: List[SessionPage]
    """Pages, at most 8"""


class SessionProfileSaveFailed(Model):
    """The `data` of `session.profile_save_failed`"""
    detail: str
    """Error message for people"""
    profile_id: str
    """Profile ID"""
    reason: ProfileSaveFailure
    session_id: str
    """Session ID"""


class SessionProfileSaveFailedEvent(Model):
    """A session's state could not be saved to its profile"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SessionProfileSaveFailed'}
    id: str
    """Event ID; it is the same in every attempt"""
    type: Literal['session.profile_save_failed']
    created_at: str
    """Time of the event"""
    data: SessionProfileSaveFailed


class SessionState(Model):
    """State of a session's browser"""
    _nested: ClassVar[Mapping[str, str]] = {'page_state': 'PageState'}
    _optional: ClassVar[Tuple[str, ...]] = ('truncated',)
    captured_at: str
    cookies: List[SessionStateCookies]
    """Cookies, at most 1,000"""
    local_storage: Union[SessionStateLocalStorage, None]
    page_state: Union[PageState, None]
    title: Union[str, None]
    """Title of the page, limited to its first 4,096 characters"""
    truncated: Optional[bool]
    """True if the address, title, cookies or storage were truncated; absent otherwise"""
    url: str
    """Address of the page, limited to its first 32,768 characters"""


class SetLocationIntent(Model):
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['set_location']
    latitude: float
    """Degrees north"""
    longitude: float
    """Degrees east"""


class SetLocationRecipeStep(Model):
    """Set the position that pages see"""
    kind: Literal['set_location']
    latitude: float
    """Degrees north"""
    longitude: float
    """Degrees east"""


class ShownComponent(Model):
    """A component of the service"""
    name: Component
    state: ComponentState


class ShownDay(Model):
    """A day of the history"""
    _nested: ClassVar[Mapping[str, str]] = {'components': 'ShownDayOfComponent'}
    components: List[ShownDayOfComponent]
    """Components of the service on that day"""
    date: str
    """Date in UTC"""


class ShownDayOfComponent(Model):
    """A component of the service on one day"""
    name: Component
    samples: int
    """Number of samples on that day, normally one per minute"""
    state: ComponentState
    uptime: Union[float, None]
    """Fraction of the samples without an outage; null without samples"""


class SignedIn(Model):
    """Signed in"""
    _nested: ClassVar[Mapping[str, str]] = {'session': 'WebSession'}
    _optional: ClassVar[Tuple[str, ...]] = ('password_reset_token',)
    password_reset_token: Optional[str]
    """Token to set a new password. It is present when the sign-up password was removed; send it to
    `/v1/auth/password-reset/confirm` within 60 minutes
    """
    session: WebSession
    """The web session"""


class SignedInDevice(Model):
    """A signed-in device"""
    created_at: str
    """Time of the sign-in (RFC 3339)"""
    current: bool
    """True for the session of this request"""
    expires_at: str
    """Time the session expires (RFC 3339)"""
    id: str
    """Web session ID"""
    ip_address: Union[str, None]
    """IP address of the sign-in"""
    last_used_at: str
    """Time of the last request (RFC 3339)"""
    user_agent: Union[str, None]
    """User agent of the sign-in"""


class SignedInDevices(Model):
    """Signed-in devices, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'SignedInDevice'}
    data: List[SignedInDevice]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class SignedUp(Model):
    """Result of a sign-up"""
    verification_email_expires_at: str
    """Time the mailed link expires (RFC 3339)"""


class SteppedUp(Model):
    """Result of a step-up"""
    mfa_satisfied_at: str
    """Time of the proof (RFC 3339); it counts as recent for 15 minutes"""
    via: SecondFactor


class SubscriptionAsked(Model):
    """Response to a subscription; it is the same for every address"""
    expires_at: Union[str, None]
    """Time the mailed link expires (RFC 3339)"""
    sent: bool
    """Always true"""


class SwipeIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    _optional: ClassVar[Tuple[str, ...]] = ('distance', 'target')
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['swipe']
    direction: SwipeDirection
    distance: Optional[int]
    """CSS pixels; absent for most of the page or the element"""
    target: Optional[IntentTarget]


class SwipeRecipeStep(Model):
    """Swipe with a finger"""
    _optional: ClassVar[Tuple[str, ...]] = ('description', 'distance', 'selector')
    description: Optional[str]
    """Human-readable description of the element"""
    direction: SwipeDirection
    distance: Optional[int]
    """CSS pixels; absent for most of the page or the element"""
    kind: Literal['swipe']
    selector: Optional[str]
    """CSS selector; absent for the page"""


class TapIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    _optional: ClassVar[Tuple[str, ...]] = ('count', 'hold_ms')
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['tap']
    target: IntentTarget
    count: Optional[int]
    """Number of taps; absent for one"""
    hold_ms: Optional[int]
    """Milliseconds that the finger stays; absent for a short tap"""


class TapRecipeStep(Model):
    """Tap an element"""
    _optional: ClassVar[Tuple[str, ...]] = ('count', 'hold_ms')
    count: Optional[int]
    """Number of taps; absent for one"""
    description: str
    """Human-readable description of the element"""
    hold_ms: Optional[int]
    """Milliseconds that the finger stays; absent for a short tap"""
    kind: Literal['tap']
    selector: str
    """CSS selector"""


class Team(Model):
    """A team"""
    created_at: str
    """Time the team was created (RFC 3339)"""
    id: str
    """Team ID"""
    name: str
    """Name of the team"""
    owner_account_id: str
    """Account that owns the team"""
    slug: Union[str, None]
    """Always null"""
    updated_at: str
    """Time the team was last renamed (RFC 3339)"""


class TeamList(Model):
    """Teams that the caller owns"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'Team'}
    data: List[Team]


class TeamOwner(Model):
    """Owner of a team that the caller is a member of"""
    membership_id: str
    """Membership ID of the caller"""
    owner_account_id: str
    """Account that owns the team; the value to send in `X-Service-Account`"""
    owner_email: str
    """E-mail address of the owner"""
    owner_name: Union[str, None]
    """Display name of the owner"""
    role: TeamRole


class TeamOwnerList(Model):
    """Owners of the teams that the caller is a member of, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'TeamOwner'}
    data: List[TeamOwner]


class TestPing(Model):
    """The `data` of `test.ping`"""
    endpoint_id: str
    """Webhook endpoint ID"""
    message: str
    """Message for people"""
    triggered_by_account_id: str
    """Account that requested the test"""


class TestPingEvent(Model):
    """A test of the endpoint"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'TestPing'}
    id: str
    """Event ID; it is the same in every attempt"""
    type: Literal['test.ping']
    created_at: str
    """Time of the event"""
    data: TestPing


class TimeRecipeCondition(Model):
    """Period of time"""
    kind: Literal['time']
    ms: int
    """Milliseconds"""


class Timeline(Model):
    """A page of events, oldest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'TimelineEvent'}
    data: List[TimelineEvent]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class TimelineEvent(Model):
    """Event of a timeline

    Members other than `seq`, `at` and `type` depend on the type. Clients must tolerate unknown types and members.
    """
    at: str
    """Time of the event"""
    seq: int
    """Number of the event; later events have higher numbers"""
    type: str
    """Type: `operation`, `console`, `request`, `dialog`, `page`, `download`, `frame`, `control`, `challenge` or `recording`"""


class TokenAnswer(Model):
    """An access token (RFC 6749, section 5.1)"""
    access_token: str
    """Access token, `svc_oauth_…`"""
    expires_in: int
    """Lifetime of the token in seconds"""
    scope: str
    """Space-separated scopes of the token"""
    token_type: str
    """The literal `Bearer`"""


class TraceLink(Model):
    """Link to a trace"""
    created_at: str
    """Time the link was created"""
    expires_at: str
    """Time the link expires"""
    id: str
    """ID of the link"""


class TraceLinkList(Model):
    """All valid links, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'TraceLink'}
    data: List[TraceLink]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class TypeIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['type']
    target: IntentTarget
    value: str
    """Always `•••`: a text to type is never returned"""


class TypeRecipeStep(Model):
    """Type text into an element. The text is never returned"""
    description: str
    """Human-readable description of the element"""
    kind: Literal['type']
    selector: str
    """CSS selector"""
    sensitive: Literal[True]


class UpdatedTeam(Model):
    """Result of a team update"""
    _nested: ClassVar[Mapping[str, str]] = {'team': 'Team'}
    team: Team


class UploadIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'target': 'IntentTarget'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['upload']
    target: IntentTarget
    file: str
    """Name of the file"""


class UrlMatchesRecipeCondition(Model):
    """Address that matches a regular expression"""
    kind: Literal['url_matches']
    pattern: str


class UsageBreakdown(Model):
    """Usage of an account by a property of its sessions"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'UsagePart'}
    by: UsageDimension
    data: List[UsagePart]
    """At most 1,000 entries, those with the most session minutes first"""
    from_date: str
    """First day"""
    to_date: str
    """Last day: yesterday"""


class UsageBucket(Model):
    """Usage on a UTC day"""
    _nested: ClassVar[Mapping[str, str]] = {'totals': 'DayTotals'}
    date: str
    """Date of the day"""
    totals: DayTotals


class UsagePart(Model):
    """Usage of the sessions with one value of the property"""
    _nested: ClassVar[Mapping[str, str]] = {'totals': 'DayTotals'}
    key: Union[str, None]
    """API key ID, archetype ID or label; null for sessions without one"""
    label: Union[str, None]
    """Name for people; null if there is none"""
    totals: DayTotals


class UsageSeries(Model):
    """Usage of an account by day"""
    _nested: ClassVar[Mapping[str, str]] = {'buckets': 'UsageBucket'}
    buckets: List[UsageBucket]
    """Days, oldest first"""
    from_date: str
    """First day of the period"""
    to_date: str
    """Last day: yesterday"""


class UsageSummary(Model):
    """Usage of an account in the current month"""
    _nested: ClassVar[Mapping[str, str]] = {'quotas': 'Quotas', 'totals': 'MonthTotals'}
    period_end: str
    """Start of the next UTC month"""
    period_start: str
    """Start of the UTC month"""
    quotas: Quotas
    tier: AccountTier
    totals: MonthTotals


class WaitException(Model):
    """Exception of a script that is waited for"""
    message: str
    """Message of the error, or the thrown value as text, limited to its first 1,000 characters"""
    name: str
    """Name of the error, limited to its first 100 characters; `Error` for a thrown value that has no name"""


class WaitIntent(Model):
    _nested: ClassVar[Mapping[str, str]] = {'condition': 'IntentCondition'}
    error: Union[str, None]
    """Reason the step failed"""
    id: str
    """Step ID, with which the step is approved"""
    needs_approval: bool
    """True if the step submits data and must be approved before it runs"""
    result: Union[IntentStepResult, None]
    status: str
    """Status of the step"""
    kind: Literal['wait']
    condition: IntentCondition


class WaitRecipeStep(Model):
    """Wait for a condition"""
    _nested: ClassVar[Mapping[str, str]] = {'condition': 'RecipeCondition'}
    condition: RecipeCondition
    kind: Literal['wait']


class Waited(Model):
    """Outcome of a wait"""
    _nested: ClassVar[Mapping[str, str]] = {'dialog': 'OpenDialog', 'dialogs': 'AnsweredDialog', 'download': 'DownloadRef', 'exception': 'WaitException', 'response': 'PageResponse'}
    _optional: ClassVar[Tuple[str, ...]] = ('dialog', 'dialogs', 'download', 'exception', 'response')
    dialog: Optional[OpenDialog]
    """Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise"""
    dialogs: Optional[List[AnsweredDialog]]
    """Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none"""
    download: Optional[DownloadRef]
    """Download that was waited for"""
    duration_ms: int
    exception: Optional[WaitException]
    """Exception of the last run of the script, if the wait timed out and that run threw one"""
    kind: str
    """Kind of the condition"""
    matched: bool
    """False only if the wait timed out with `on_timeout: return`, or if a dialog ended it"""
    response: Optional[PageResponse]
    """Response that was waited for"""
    url: str
    """Address of the page after the wait"""


class WaitingApproval(Model):
    """Step that waits for an approval"""
    _nested: ClassVar[Mapping[str, str]] = {'step': 'AgentIntent'}
    agent_session_id: str
    """Agent session of the step; a message with the step's ID in `approvals` approves it"""
    requested_at: str
    """Time the approval was requested"""
    session_id: str
    """Driver session of the agent session"""
    step: AgentIntent


class WaitingApprovalList(Model):
    """A page of steps that wait for an approval, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'WaitingApproval'}
    data: List[WaitingApproval]
    has_more: bool
    """True when there is another page"""
    next_cursor: Union[str, None]
    """Cursor of the next page; null on the last page"""


class WaitingDevice(Model):
    """An app that waits for authorization"""
    client_label: Union[str, None]
    """Name of the app"""
    created_at: str
    """Time of the app's request (RFC 3339)"""
    expires_at: str
    """Time the code expires (RFC 3339)"""
    ip_address: Union[str, None]
    """IP address of the app's request"""
    state: str
    """Nonce of the app; send it back unchanged"""


class WebSession(Model):
    """A new or refreshed web session"""
    account_id: str
    """Account that signed in"""
    expires_at: str
    """Time the token expires (RFC 3339)"""
    token: str
    """Bearer token, returned only once"""


class WebhookAttempt(Model):
    """An attempt to send a delivery"""
    at: str
    """Time the attempt ended (RFC 3339)"""
    duration_ms: int
    """Duration in milliseconds"""
    error: Union[str, None]
    """Reason the attempt got no response"""
    excerpt: Union[str, None]
    """Beginning of the body of the response"""
    status: Union[int, None]
    """HTTP status of the response"""


class WebhookDelivery(Model):
    """A delivery of an event to a webhook endpoint"""
    attempts: int
    """Number of completed attempts"""
    created_at: str
    """Time the delivery was created (RFC 3339)"""
    delivered_at: Union[str, None]
    """Time the delivery succeeded (RFC 3339)"""
    duration_ms: Union[int, None]
    """Duration of the last attempt in milliseconds"""
    endpoint_id: str
    """Target endpoint"""
    event_id: str
    """Event ID"""
    event_type: EventType
    id: str
    """Delivery ID"""
    last_error: Union[str, None]
    """Reason the last attempt got no response"""
    last_response_excerpt: Union[str, None]
    """Beginning of the body of the endpoint's last response"""
    last_response_status: Union[int, None]
    """HTTP status of the endpoint's last response"""
    next_attempt_at: Union[str, None]
    """Time the next attempt is due (RFC 3339)"""
    status: WebhookDeliveryStatus
    updated_at: str
    """Time of the last change (RFC 3339)"""


class WebhookDeliveryDetail(Model):
    """A delivery with its content and its attempts"""
    _nested: ClassVar[Mapping[str, str]] = {'attempts_log': 'WebhookAttempt'}
    attempts: int
    """Number of completed attempts"""
    created_at: str
    """Time the delivery was created (RFC 3339)"""
    delivered_at: Union[str, None]
    """Time the delivery succeeded (RFC 3339)"""
    duration_ms: Union[int, None]
    """Duration of the last attempt in milliseconds"""
    endpoint_id: str
    """Target endpoint"""
    event_id: str
    """Event ID"""
    event_type: EventType
    id: str
    """Delivery ID"""
    last_error: Union[str, None]
    """Reason the last attempt got no response"""
    last_response_excerpt: Union[str, None]
    """Beginning of the body of the endpoint's last response"""
    last_response_status: Union[int, None]
    """HTTP status of the endpoint's last response"""
    next_attempt_at: Union[str, None]
    """Time the next attempt is due (RFC 3339)"""
    status: WebhookDeliveryStatus
    updated_at: str
    """Time of the last change (RFC 3339)"""
    attempts_log: List[WebhookAttempt]
    """Last ten attempts, oldest first"""
    headers: WebhookDeliveryDetailHeaders
    payload: WebhookDeliveryDetailPayload


class WebhookEndpoint(Model):
    """A webhook endpoint"""
    _nested: ClassVar[Mapping[str, str]] = {'delivery_counts': 'DeliveryCounts'}
    active: bool
    """True when events are delivered; false while the endpoint is paused and after it was disabled"""
    consecutive_failures: int
    """Number of consecutive deliveries that ended in the dead-letter state"""
    created_at: str
    """Time the endpoint was created (RFC 3339)"""
    delivery_counts: DeliveryCounts
    """Number of ended deliveries by result"""
    description: Union[str, None]
    """Description by the account owner"""
    disabled_at: Union[str, None]
    """Time the endpoint was disabled permanently (RFC 3339)"""
    events: List[SubscribableEventType]
    id: str
    """Webhook endpoint ID"""
    last_failure_at: Union[str, None]
    """Time of the last failed attempt (RFC 3339)"""
    last_success_at: Union[str, None]
    """Time of the last successful delivery (RFC 3339)"""
    prev_secret_prefix: Union[str, None]
    """First characters of the previous secret, while it still signs deliveries"""
    rotation_grace_expires_at: Union[str, None]
    """Time the previous secret stops signing (RFC 3339)"""
    secret_prefix: str
    """First characters of the signing secret"""
    url: str
    """URL that deliveries are sent to"""


class WebhookList(Model):
    """Webhook endpoints, newest first"""
    _nested: ClassVar[Mapping[str, str]] = {'data': 'WebhookEndpoint'}
    data: List[WebhookEndpoint]


AccountStatus = Literal['active', 'suspended', 'deleted']

AccountTier = Literal['free', 'solo_manual', 'team_manual', 'agency_manual', 'api_starter', 'api_builder', 'api_scale', 'enterprise']

CaptureKind = Literal['screenshot', 'dom_snapshot', 'pdf']

IntentConditionKind = Literal['selector', 'selector_hidden', 'url_matches', 'time', 'download', 'page']

IntentStepResult = Dict[str, Any]

SwipeDirection = Literal['up', 'down', 'left', 'right']

AgentIntent = Union[NavigateIntent, TapIntent, CheckIntent, TypeIntent, FillIntent, PressIntent, SelectIntent, UploadIntent, DragIntent, SwipeIntent, HoverIntent, ScrollIntent, WaitIntent, CaptureIntent, ExtractIntent, DialogIntent, ActivatePageIntent, ClosePageIntent, SetLocationIntent, BackIntent, ForwardIntent, ReloadIntent]

AgentSessionCloseReason = str

AgentSessionControl = Literal['ai', 'human']

AgentSessionMode = Literal['manual', 'ai', 'pair']

AgentSessionStatus = Literal['active', 'closed']

ArchetypeStatus = Literal['launch', 'available']

AuditAction = str

AuditEntryActorType = Literal['customer', 'system', 'staff']

AuditEntryPayload = Dict[str, Any]

AutoDestroyReason = Literal['auto-destroyed: free-tier session duration cap', 'auto-destroyed: session duration cap', 'account suspended']

CapturedEncoding = Literal['base64', 'utf8']

ChallengeOutcome = Literal['resolved', 'disappeared']

ChallengeType = str

ColorScheme = Literal['light', 'dark']

Component = str

ComponentState = Literal['operational', 'degraded_performance', 'partial_outage', 'major_outage', 'unknown']

CryptoOrderFailedReason = Literal['ipn', 'expired', 'swept']

CryptoOrderStatus = Literal['pending', 'paid', 'failed']

DeviceExchange = Union[DeviceExchangePending, DeviceExchangeBound, DeviceExchangeExpired]

DialogType = Literal['alert', 'confirm', 'prompt', 'beforeunload']

DownloadError = str

DownloadStatus = Literal['in_progress', 'complete', 'failed']

EventType = str

ExtractedValue = Dict[str, Any]

FailedOperation = Literal['navigate', 'interact', 'gui_input', 'wait', 'state_capture', 'capture', 'extract', 'search', 'login', 'unknown']

GetContract = Dict[str, Any]

IncidentImpact = Literal['minor', 'major', 'critical']

IncidentStatus = Literal['investigating', 'identified', 'monitoring', 'resolved']

NotificationData = Dict[str, Any]

Obstacle = str

OptionalEmail = Literal['signup-welcome', 'session-success-first', 'session-failed-first', 'tier-changed', 'billing-receipt', 'billing-renewal-reminder']

Orientation = Literal['portrait', 'landscape']

PageErrorKind = Literal['http', 'tls', 'dns', 'net', 'timeout']

PageStanding = Literal['loading', 'loaded', 'errored']

PaidTier = Literal['solo_manual', 'team_manual', 'agency_manual', 'api_starter', 'api_builder', 'api_scale', 'enterprise']

ProblemCode = str

ProfileSaveFailure = str

ProviderKeyTestOutcome = Literal['ok', 'invalid', 'quota_exceeded', 'unknown']

ProxyScheme = Literal['socks5', 'http', 'wireguard', 'openvpn']

ReadinessEncryptionKey = str

ReadinessWorkers = str

RecipeWithStepsIntentLogConditionTarget = Dict[str, Any]

RecipeCondition = Union[SelectorRecipeCondition, SelectorHiddenRecipeCondition, UrlMatchesRecipeCondition, TimeRecipeCondition, DownloadRecipeCondition, PageRecipeCondition]

RecipeWithStepsIntentLogItemsTarget = Dict[str, Any]

RecipeWithStepsIntentLogTo = Dict[str, Any]

RecipeStep = Union[NavigateRecipeStep, TapRecipeStep, CheckRecipeStep, TypeRecipeStep, FillRecipeStep, PressRecipeStep, SelectRecipeStep, DragRecipeStep, SwipeRecipeStep, HoverRecipeStep, DialogRecipeStep, ActivatePageRecipeStep, ClosePageRecipeStep, SetLocationRecipeStep, ScrollRecipeStep, WaitRecipeStep, CaptureRecipeStep, ExtractRecipeStep, BackRecipeStep, ForwardRecipeStep, ReloadRecipeStep]

RecordMode = Literal['off', 'steps']

ResourceType = Literal['image', 'media', 'font', 'stylesheet', 'script', 'websocket', 'xhr']

SameSite = Literal['strict', 'lax', 'none']

SecondFactor = Literal['totp', 'recovery']

SessionEgressCapabilityReport = Dict[str, Any]

SessionEndReason = Literal['customer', 'free_tier_cap', 'suspended', 'staff', 'idle', 'worker_lost', 'failed', 'max_age']

SessionErrorName = Literal['SessionTimeoutError', 'DriverError', 'DriverNotIntegratedError', 'UnknownError']

SessionMetadata = Dict[str, Any]

SessionStateCookies = Dict[str, Any]

SessionStateLocalStorage = Dict[str, str]

SessionStatus = Literal['creating', 'ready', 'busy', 'destroyed', 'errored']

SignInResult = Union[SignedIn, MfaRequired]

SubscribableEventType = Literal['session.completed', 'session.failed', 'api_key.revoked', 'session.egress_capability_changed', 'crypto.order.paid', 'crypto.order.failed', 'session.challenge_detected', 'session.profile_save_failed']

TeamRole = Literal['member', 'admin']

UsageDimension = Literal['api_key', 'archetype', 'label']

WebhookDeliveryDetailHeaders = Dict[str, str]

WebhookDeliveryDetailPayload = Dict[str, Any]

WebhookDeliveryStatus = Literal['pending', 'in_flight', 'delivered', 'failed', 'dlq']

WebhookEvent = Union[SessionCompletedEvent, SessionFailedEvent, ApiKeyRevokedEvent, SessionEgressCapabilityChangedEvent, CryptoOrderPaidEvent, CryptoOrderFailedEvent, SessionChallengeDetectedEvent, SessionProfileSaveFailedEvent, TestPingEvent]

UNIONS: Dict[str, Tuple[Optional[str], Dict[str, str]]] = {
    'AgentIntent': ('kind', {'navigate': 'NavigateIntent', 'tap': 'TapIntent', 'check': 'CheckIntent', 'type': 'TypeIntent', 'fill': 'FillIntent', 'press': 'PressIntent', 'select': 'SelectIntent', 'upload': 'UploadIntent', 'drag': 'DragIntent', 'swipe': 'SwipeIntent', 'hover': 'HoverIntent', 'scroll': 'ScrollIntent', 'wait': 'WaitIntent', 'capture': 'CaptureIntent', 'extract': 'ExtractIntent', 'dialog': 'DialogIntent', 'activate_page': 'ActivatePageIntent', 'close_page': 'ClosePageIntent', 'set_location': 'SetLocationIntent', 'back': 'BackIntent', 'forward': 'ForwardIntent', 'reload': 'ReloadIntent'}),
    'DeviceExchange': ('status', {'pending': 'DeviceExchangePending', 'bound': 'DeviceExchangeBound', 'expired': 'DeviceExchangeExpired'}),
    'RecipeCondition': ('kind', {'selector': 'SelectorRecipeCondition', 'selector_hidden': 'SelectorHiddenRecipeCondition', 'url_matches': 'UrlMatchesRecipeCondition', 'time': 'TimeRecipeCondition', 'download': 'DownloadRecipeCondition', 'page': 'PageRecipeCondition'}),
    'RecipeStep': ('kind', {'navigate': 'NavigateRecipeStep', 'tap': 'TapRecipeStep', 'check': 'CheckRecipeStep', 'type': 'TypeRecipeStep', 'fill': 'FillRecipeStep', 'press': 'PressRecipeStep', 'select': 'SelectRecipeStep', 'drag': 'DragRecipeStep', 'swipe': 'SwipeRecipeStep', 'hover': 'HoverRecipeStep', 'dialog': 'DialogRecipeStep', 'activate_page': 'ActivatePageRecipeStep', 'close_page': 'ClosePageRecipeStep', 'set_location': 'SetLocationRecipeStep', 'scroll': 'ScrollRecipeStep', 'wait': 'WaitRecipeStep', 'capture': 'CaptureRecipeStep', 'extract': 'ExtractRecipeStep', 'back': 'BackRecipeStep', 'forward': 'ForwardRecipeStep', 'reload': 'ReloadRecipeStep'}),
    'SignInResult': (None, {'SignedIn': 'SignedIn', 'MfaRequired': 'MfaRequired'}),
    'WebhookEvent': ('type', {'session.completed': 'SessionCompletedEvent', 'session.failed': 'SessionFailedEvent', 'api_key.revoked': 'ApiKeyRevokedEvent', 'session.egress_capability_changed': 'SessionEgressCapabilityChangedEvent', 'crypto.order.paid': 'CryptoOrderPaidEvent', 'crypto.order.failed': 'CryptoOrderFailedEvent', 'session.challenge_detected': 'SessionChallengeDetectedEvent', 'session.profile_save_failed': 'SessionProfileSaveFailedEvent', 'test.ping': 'TestPingEvent'}),
}
"""Unions: the member that tells which of the classes a value has, if there is one, and the classes."""

REQUIRED: Dict[str, Tuple[str, ...]] = {'SignedIn': ('session',), 'MfaRequired': ('challenge_expires_at', 'challenge_token', 'mfa_required')}

REGISTRY = Registry(globals(), UNIONS, REQUIRED)
