// Generated from openapi.json by clients/generate/generate.py. Do not edit.

/** Result of an accepted invitation */
export interface AcceptedInvite {
  membership: Membership;
}

/** Limits of an account */
export interface AccountLimits {
  /** Maximum number of live sessions at the same time */
  concurrent_sessions: number;
  /** Maximum number of profiles */
  profiles: number;
}

export type AccountStatus = "active" | "suspended" | "deleted";

export type AccountTier = "free" | "solo_manual" | "team_manual" | "agency_manual" | "api_starter" | "api_builder" | "api_scale" | "enterprise";

export type Action = TapAction | HoverAction | SwipeAction | DragAction | CheckAction | ClearAction | FillAction | TypeAction | ScrollAction | PressAction | SelectAction | DialogAction | UploadAction | BackAction | ForwardAction | ReloadAction;

export type ActivatePageIntent = IntentStep & {
  kind: "activate_page";
  page: IntentPage;
};

/** Page of the browser */
export interface ActivatePageRecipeStep {
  /** Human-readable description of the page */
  description: string;
  kind: "activate_page";
  /** Position in the list of pages, counted from 1 */
  position: number;
}

/** A header that is added to requests, without its value */
export interface AddedHeader {
  /** Name of the header */
  name: string;
  /** Origins that receive the header; null for all */
  origins: string[] | null;
}

/** Download that began during a turn */
export interface AgentDownload {
  /** Number of bytes received until the end of the turn */
  bytes: number;
  /** Suggested name of the file */
  file_name: string;
  /** ID of the download */
  id: string;
  /** Progress of the download at the end of the turn */
  status: DownloadStatus;
}

/** File that is attached to an agent session */
export interface AgentFile {
  /** ID of the file */
  id: string;
  /** Name by which messages refer to the file */
  name: string;
}

/** File to attach to an agent session */
export interface AgentFileCreate {
  /** Content of the file in base64, of at most 16 MiB */
  content: string;
  /** Media type. The page sees the one that a browser derives from the name */
  content_type?: string;
  /**
   * Name by which messages refer to the file, and which pages see. Of a path only the last part counts, and hidden characters are
   * removed
   */
  name: string;
}

/** Step of a plan */
export type AgentIntent = NavigateIntent | TapIntent | CheckIntent | TypeIntent | FillIntent | PressIntent | SelectIntent | UploadIntent | DragIntent | SwipeIntent | HoverIntent | ScrollIntent | WaitIntent | CaptureIntent | ExtractIntent | DialogIntent | ActivatePageIntent | ClosePageIntent | SetLocationIntent | BackIntent | ForwardIntent | ReloadIntent;

/** Message to an agent session */
export interface AgentMessage {
  /** IDs of the intents that this message approves. The plan that they belong to then continues */
  approvals?: string[];
  /** Instructions in natural language */
  message: string;
}

/** Browser driven by natural-language messages */
export interface AgentSession {
  /** Account that owns the agent session */
  account_id: string;
  /** Archetype of the browser */
  archetype: string;
  close_reason: AgentSessionCloseReason | null;
  control: AgentSessionControl;
  /** Time the agent session was requested */
  created_at: string;
  /** Time the agent session was closed */
  destroyed_at: string | null;
  /** Agent session ID */
  id: string;
  /** Label set by the customer */
  label: string | null;
  mode: AgentSessionMode;
  /** Profile that the browser started from */
  profile_id: string | null;
  /** Saved proxy of the browser; it may have been deleted since */
  proxy_id: string | null;
  /** Driver session: the ordinary session that holds the browser */
  session_id: string;
  status: AgentSessionStatus;
  /** Maximum number of model tokens */
  token_budget: number;
  /** Model tokens used so far */
  tokens_used: number;
  /** Time of the last change */
  updated_at: string;
}

/** Client of a person */
export interface AgentSessionClient {
  /** Name of the client; it identifies the client that has control */
  client_id: string;
}

/** Clients must accept unknown values */
export type AgentSessionCloseReason = string;

export type AgentSessionControl = "ai" | "human";

/** Body of `POST /v1/agent-sessions`; every field is optional */
export interface AgentSessionCreate {
  /**
   * Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status
   * `launch`
   */
  archetype?: string;
  /** Requests that the browser does not send */
  block?: BlockedRequests;
  /** Color scheme that pages see; `light` by default */
  color_scheme?: ColorScheme;
  /** False if challenges must not pause the session. By default they pause it, if the deployment detects challenges */
  detect_challenges?: boolean;
  dialogs?: DialogPolicy;
  /** Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them */
  extra_headers?: ExtraHeader[];
  /** Position that pages of secure origins see; by default they are denied it */
  geolocation?: Geolocation;
  /** Free text */
  label?: string;
  /** Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session */
  locale?: string;
  mode?: AgentSessionMode;
  /** True to cut the browser off from the network */
  offline?: boolean;
  /** Orientation of the device; `portrait` by default */
  orientation?: Orientation;
  /**
   * Profile that the browser starts from. A profile can have one live session at a time. Requires `write:profiles` in addition
   * to `write:agents`
   */
  profile_id?: string;
  /** Saved proxy of the account. The browser sends all its traffic through it */
  proxy_id?: string;
  record?: RecordMode;
  /**
   * Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
   * session, whose browser takes longer to open
   */
  timezone?: string;
  /** Maximum number of model tokens; 200,000 by default */
  token_budget?: number;
}

/** A page of agent sessions, newest first */
export interface AgentSessionList {
  /** The agent sessions */
  data: AgentSession[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

export type AgentSessionMode = "manual" | "ai" | "pair";

/** Body of a change of mode */
export interface AgentSessionModeChange {
  mode: AgentSessionMode;
}

export type AgentSessionStatus = "active" | "closed";

/** A page of a transcript, oldest first */
export interface AgentTranscript {
  /** The messages and replies */
  data: AgentTranscriptEntry[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Message, or reply to a message */
export interface AgentTranscriptEntry {
  /** Elements the message may refer to */
  candidates?: Candidate[];
  /** Time of the message or reply */
  created_at: string;
  /** Component that interpreted the message */
  decomposer?: string;
  /** Dialog that waited for an answer at the end of the turn */
  dialog?: OpenDialog;
  /** Dialogs that pages showed during the turn, at most 20, and their answers */
  dialogs?: AnsweredDialog[];
  /** Downloads that began during the turn, at most 20 */
  downloads?: AgentDownload[];
  /** Steps of the turn */
  intents?: AgentIntent[];
  /** Outcome of the turn */
  kind?: string;
  /** Text of the message, without the texts to type */
  message?: string;
  /** Reply in natural language */
  reply?: string;
  /** `user` or `agent` */
  role: string;
  /** Tokens that a model used for the turn */
  tokens_used: number;
  /** Turn ID; a turn is a message and its reply */
  turn_id: string;
}

/** Outcome of a message */
export interface AgentTurn {
  /** Elements the message may refer to if it is ambiguous, at most five */
  candidates?: Candidate[];
  /** Dialog that waits for an answer at the end of the turn; absent if there is none */
  dialog?: OpenDialog;
  /** Dialogs that pages showed during the turn, at most 20, and their answers; absent if there was none */
  dialogs?: AnsweredDialog[];
  /** Downloads that began during the turn, at most 20; absent if there was none */
  downloads?: AgentDownload[];
  /** Steps of the turn, in order */
  intents: AgentIntent[];
  /** `plan`: the message had steps to perform; `clarify`: the message was ambiguous; `refuse`: the request was refused */
  kind: string;
  /** Reply in natural language */
  reply: string;
  /** Tokens that a model used for the turn */
  tokens_used: number;
  /** Turn ID */
  turn_id: string;
}

/** Dialog that a page showed and that was answered */
export interface AnsweredDialog {
  /** True if the dialog was accepted */
  accepted: boolean;
  /** Message, limited to its first 1,024 characters */
  message: string;
  type: DialogType;
}

/** An API key */
export interface ApiKey {
  /** Account that owns the key */
  account_id: string;
  /** Time the key was created (RFC 3339) */
  created_at: string;
  /** Account that created the key; null when staff created it */
  created_by_account_id: string | null;
  /** Time the key expires (RFC 3339); null when it does not expire */
  expires_at: string | null;
  /** API key ID */
  id: string;
  /** First 12 characters of the key */
  key_prefix: string;
  /** Time the key was last used (RFC 3339) */
  last_used_at: string | null;
  /** Name of the key */
  name: string;
  /** Time the key was revoked (RFC 3339) */
  revoked_at: string | null;
  /** Scopes of the key */
  scopes: string[];
}

/** A page of API keys, newest first */
export interface ApiKeyList {
  data: ApiKey[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** The `data` of `api_key.revoked` */
export interface ApiKeyRevoked {
  /** API key ID */
  api_key_id: string;
  /** Name of the key */
  name: string;
  /** Time the key was revoked (RFC 3339) */
  revoked_at: string;
}

/** An API key was revoked */
export interface ApiKeyRevokedEvent {
  /** Event ID; it is the same in every attempt */
  id: string;
  type: "api_key.revoked";
  /** Time of the event */
  created_at: string;
  data: ApiKeyRevoked;
}

/** Device, with its operating system and browser */
export interface Archetype {
  /** Family of devices with the same canvas rendering */
  canvas_family: string;
  device: string;
  /** Human-readable name */
  display_label: string;
  /** Value accepted as `archetype` */
  id: string;
  ios_version: string;
  /** True if this is the default archetype of a create */
  is_default: boolean;
  safari_version: string;
  status: ArchetypeStatus;
}

/** Archetype catalogue */
export interface ArchetypeList {
  data: Archetype[];
  /** Default archetype of a create */
  default_archetype_id: string;
}

export type ArchetypeStatus = "launch" | "available";

/** Clients must accept unknown values */
export type AuditAction = string;

/** An entry of the audit log */
export interface AuditEntry {
  /** Account that the entry belongs to */
  account_id: string;
  action: AuditAction;
  /** Account of the actor; differs from `account_id` when a team member acted */
  actor_account_id: string | null;
  /** API key of the actor; null for web sessions, the system and staff */
  actor_key_id: string | null;
  actor_type: AuditEntryActorType;
  /** Entry ID, a UUID without a prefix */
  id: string;
  /** IP address of the request; null when another account acted */
  ip_address: string | null;
  payload: AuditEntryPayload;
  /** Resource that the action applied to */
  target_resource_id: string | null;
  /** Time of the action (RFC 3339) */
  timestamp: string;
  /** User agent of the request; null when another account acted */
  user_agent: string | null;
}

export type AuditEntryActorType = "customer" | "system" | "staff";

/** Details of the action. Clients must accept unknown members and unknown structures */
export type AuditEntryPayload = Record<string, unknown>;

/** An export of the audit log */
export interface AuditExport {
  /** Account that the log belongs to */
  account_id: string;
  /** The entries, newest first */
  data: AuditEntry[];
  /** Time the export was made (RFC 3339) */
  generated_at: string;
  /** Number of entries */
  row_count: number;
  /** True when older entries were left out */
  truncated: boolean;
}

/** File format of an export. */
export type AuditExportFormat = "csv" | "json";

/** A page of the audit log, newest first */
export interface AuditPage {
  data: AuditEntry[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

export type AutoDestroyReason = "auto-destroyed: free-tier session duration cap" | "auto-destroyed: session duration cap" | "account suspended";

/** Go back to the previous page */
export interface BackAction {
  kind: "back";
}

export type BackIntent = IntentStep & {
  kind: "back";
};

/** No parameters */
export interface BackRecipeStep {
  kind: "back";
}

export type BehavioralProfile = "casual" | "regular" | "power_user";

/** The subscription of an account */
export interface BillingSubscription {
  /** True when the subscription ends with the current period */
  cancel_at_period_end: boolean | null;
  /** End of the current billing period (RFC 3339) */
  current_period_end: string | null;
  /** Payment method: `card` */
  provider: string | null;
  /**
   * Status at the card provider, such as `active`, `past_due` or `canceled`. It and the fields below are null without a
   * subscription
   */
  status: string | null;
  tier: AccountTier;
}

/** Request body of an authorization */
export interface BindDevice {
  /** Scopes of the credential; the caller can grant only scopes of their own credential */
  scopes?: Scope[];
  /** Nonce of the app */
  state: string;
  /** Code that the app shows */
  user_code: string;
}

/** Requests that the browser does not send */
export interface BlockedRequests {
  /** Hosts without a scheme, a port or a wildcard. A host covers its subdomains */
  hosts?: string[];
  /** Types of blocked requests */
  resource_types?: ResourceType[];
}

/** Result of an authorization */
export interface BoundDevice {
  /** Always true */
  bound: boolean;
  /** Name of the app */
  client_label: string | null;
}

/** Consent to the use of the deployment's model key */
export interface BundledLlmConsent {
  /** True when agent sessions may use the model that the deployment pays for. It applies to accounts without a provider key */
  consented: boolean;
}

/** Element that matches an ambiguous target */
export interface Candidate {
  /** Human-readable description, such as `button "Sign in"` */
  description: string;
  /** CSS selector that matches only this element */
  selector: string;
}

/** Body of `capture` */
export interface Capture {
  /** True to print backgrounds in a PDF */
  background?: boolean;
  format?: ImageFormat;
  /** True to capture the whole document instead of the viewport; for screenshots */
  full_page?: boolean;
  kind: CaptureKind;
  /** True for a PDF whose long side is horizontal */
  landscape?: boolean;
  margins?: Margins;
  paper?: Paper;
  /** Quality of a JPEG or a WebP */
  quality?: number;
  /** True to scroll through the whole page first, so that lazy content loads; for screenshots with `full_page` */
  reveal?: boolean;
  scale?: CaptureScale;
  /** CSS selector of an element to capture, for screenshots; alternative to `target` */
  selector?: string;
  target?: Target;
}

export type CaptureIntent = IntentStep & {
  kind: "capture";
  capture: CaptureKind;
};

export type CaptureKind = "screenshot" | "dom_snapshot" | "pdf";

/** Capture the page */
export interface CaptureRecipeStep {
  capture: CaptureKind;
  kind: "capture";
}

export type CaptureScale = "css" | "device";

/** Capture of a page */
export interface Captured {
  /** Size of the content in bytes, before encoding */
  bytes: number;
  content: string;
  content_type: string;
  duration_ms: number;
  encoding: CapturedEncoding;
  kind: string;
  /** Address of the page */
  url: string;
}

export type CapturedEncoding = "base64" | "utf8";

/** A challenge that a page presents to its visitor */
export interface Challenge {
  /** Confidence of the detection */
  confidence: number;
  /** Evidence for the detection */
  detail: string;
  type: ChallengeType;
}

/** Result of a login challenge */
export interface ChallengeMet {
  /** The web session */
  session: WebSession;
  via: SecondFactor;
}

export type ChallengeOutcome = "resolved" | "disappeared";

/** Request body of a login challenge */
export interface ChallengeProof {
  /** Token of the login response */
  challenge_token: string;
  /** Six-digit code of the authenticator app. Send either this or `recovery_code` */
  code?: string;
  /** Recovery code, with or without the hyphen. Send either this or `code` */
  recovery_code?: string;
}

/** Clients must accept unknown values */
export type ChallengeType = string;

/** Request body of an e-mail address change */
export interface ChangeEmail {
  /** New e-mail address */
  email: string;
  /** Current password of the account */
  password: string;
}

/** Result of a confirmed e-mail address change */
export interface ChangedEmail {
  /** New e-mail address of the account */
  email: string;
}

/** Set the state of a checkbox, a switch or a radio button */
export interface CheckAction {
  /** Wanted state. If the control has it already, nothing happens. A radio button cannot be unchecked */
  checked?: boolean;
  kind: "check";
  /** CSS selector; alternative to `target` */
  selector?: string;
  target?: Target;
}

export type CheckIntent = IntentStep & {
  kind: "check";
  target: IntentTarget;
  /** Wanted state */
  checked: boolean;
};

/** Set the state of a checkbox or a switch */
export interface CheckRecipeStep {
  /** Wanted state */
  checked: boolean;
  /** Human-readable description of the element */
  description: string;
  kind: "check";
  /** CSS selector */
  selector: string;
}

/** A checkout session of the card provider */
export interface CheckoutSession {
  /** Payment page of the card provider */
  checkout_url: string;
  /** The provider's ID of the checkout session */
  provider_session_id: string;
}

/** Remove the content of a field */
export interface ClearAction {
  kind: "clear";
  /** CSS selector; alternative to `target` */
  selector?: string;
  target?: Target;
}

export type ClosePageIntent = IntentStep & {
  kind: "close_page";
  page: IntentPage;
};

/** Page of the browser */
export interface ClosePageRecipeStep {
  /** Human-readable description of the page */
  description: string;
  kind: "close_page";
  /** Position in the list of pages, counted from 1 */
  position: number;
}

/** Color scheme that pages see as `prefers-color-scheme` */
export type ColorScheme = "light" | "dark";

/** Clients must accept unknown values */
export type Component = string;

export type ComponentState = "operational" | "degraded_performance" | "partial_outage" | "major_outage" | "unknown";

export type Condition = SelectorCondition | SelectorHiddenCondition | UrlMatchesCondition | TextCondition | FunctionCondition | ResponseCondition | LoadStateCondition | TimeCondition | PageCondition | DownloadCondition;

/** Confirmation request: the e-mail address has an account that is not linked to the identity provider */
export interface ConfirmationRequired {
  /** Always true */
  confirmation_required: boolean;
  /** Time the mailed link expires (RFC 3339) */
  expires_at: string;
}

/** Line of the console */
export interface ConsoleEntry {
  /** Time of the line */
  at: string;
  /** Level: `debug`, `info`, `log`, `warning` or `error` */
  level: string;
  /** Line of the script */
  line: number | null;
  /** Number of the event */
  seq: number;
  /** Source: `console`, `script`, `network`, `security` or `other` */
  source: string;
  /** Text, limited to its first 2,000 characters */
  text: string;
  /** Address of the script or page */
  url: string | null;
}

/** A page of console lines, oldest first */
export interface ConsoleList {
  data: ConsoleEntry[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Tier to buy and the return URLs */
export interface CreateCheckoutSession {
  /** URL the provider redirects to when the purchase is cancelled; http or https */
  cancel_url: string;
  /** URL the provider redirects to after payment; http or https */
  success_url: string;
  tier: PaidTier;
}

/** Request body of a crypto order */
export interface CreateCryptoOrder {
  /** Currency of the payment, as the processor names it; default `btc` */
  pay_currency?: string;
  /** Currency of the price: `usd` */
  price_currency?: string;
  product: PaidTier;
}

/** Request body of an API key creation */
export interface CreateKey {
  /** Time the key expires (RFC 3339); a key without it does not expire */
  expires_at?: string;
  /** Name of the key */
  name: string;
  /** Scopes of the credential; the caller can grant only scopes of their own credential */
  scopes: Scope[];
}

/** Validity of a new live link */
export interface CreateLiveLink {
  /** Validity in seconds; one hour by default */
  expires_in?: number;
}

/** Return URL of the billing portal */
export interface CreatePortalSession {
  /** URL of the portal's return link; http or https */
  return_url: string;
}

/** Body of a recipe's creation */
export interface CreateRecipe {
  /**
   * Agent session whose steps become the recipe. It must belong to the caller, or to an account whose team has the caller as
   * admin
   */
  agent_session_id: string;
  /** Description */
  description?: string;
  /** Label; leading and trailing white space is removed */
  label: string;
}

/** Validity of a new trace link */
export interface CreateTraceLink {
  /** Validity in seconds; one day by default */
  expires_in?: number;
}

/** Request body of a webhook endpoint creation */
export interface CreateWebhook {
  /** Description by the account owner */
  description?: string;
  events: SubscribableEventType[];
  /** URL that deliveries are sent to: https, without user name and password */
  url: string;
}

/** A webhook endpoint with its signing secret, which is returned only once */
export type CreatedWebhook = WebhookEndpoint & {
  /** Signing secret: the HMAC key is exactly this text */
  secret: string;
};

/** A one-time payment for one period of a tier */
export interface CryptoOrder {
  /** Time the order was created (RFC 3339) */
  created_at: string;
  /** End of the payment window (RFC 3339) */
  expires_at: string;
  /** Time the order failed (RFC 3339) */
  failed_at: string | null;
  /** Order ID */
  id: string;
  /** Time the order was paid (RFC 3339) */
  paid_at: string | null;
  /** End of the paid period (RFC 3339) */
  paid_until: string | null;
  /** Address to pay to */
  pay_address: string | null;
  /** Amount to pay */
  pay_amount: number | null;
  /** Currency of the payment */
  pay_currency: string;
  /** The processor's ID of the payment */
  payment_id: string | null;
  /** Price in cents */
  price_cents: number;
  /** Currency of the price */
  price_currency: string;
  product: PaidTier;
  reason: CryptoOrderFailedReason | null;
  status: CryptoOrderStatus;
}

/** The `data` of `crypto.order.failed` */
export interface CryptoOrderFailed {
  /** Time the order failed (RFC 3339) */
  failed_at: string;
  /** Order ID */
  order_id: string;
  /** Payment ID at the payment processor */
  payment_id: string;
  /** Price in cents */
  price_cents: number;
  /** Currency of the price */
  price_currency: string;
  /** Tier of the order */
  product: string;
  reason: CryptoOrderFailedReason;
}

/** A crypto order failed */
export interface CryptoOrderFailedEvent {
  /** Event ID; it is the same in every attempt */
  id: string;
  type: "crypto.order.failed";
  /** Time of the event */
  created_at: string;
  data: CryptoOrderFailed;
}

export type CryptoOrderFailedReason = "ipn" | "expired" | "swept";

/** A page of crypto orders, newest first */
export interface CryptoOrderList {
  data: CryptoOrder[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** The `data` of `crypto.order.paid` */
export interface CryptoOrderPaid {
  /** Order ID */
  order_id: string;
  /** Time the order was paid (RFC 3339) */
  paid_at: string;
  /** Payment ID at the payment processor */
  payment_id: string;
  /** Price in cents */
  price_cents: number;
  /** Currency of the price */
  price_currency: string;
  /** Tier that was bought */
  product: string;
}

/** A crypto order was paid */
export interface CryptoOrderPaidEvent {
  /** Event ID; it is the same in every attempt */
  id: string;
  type: "crypto.order.paid";
  /** Time of the event */
  created_at: string;
  data: CryptoOrderPaid;
}

export type CryptoOrderStatus = "pending" | "paid" | "failed";

/** Usage on a day by record type; absent types have no usage */
export interface DayTotals {
  interact?: number;
  navigate?: number;
  screenshot_capture?: number;
  session_minute?: number;
  state_capture?: number;
  wait?: number;
}

/** Request body of an account deletion */
export interface DeleteAccount {
  /** The literal `delete-account` */
  confirm: string;
}

/** Number of ended deliveries by result */
export interface DeliveryCounts {
  /** Successful deliveries */
  delivered: number;
  /** Deliveries whose attempts all failed (dead letters) */
  dlq: number;
  /** Deliveries that ended because the endpoint was deleted or disabled */
  failed: number;
}

/** A page of deliveries, newest first */
export interface DeliveryList {
  data: WebhookDelivery[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** State of an app's request */
export type DeviceExchange = DeviceExchangePending | DeviceExchangeBound | DeviceExchangeExpired;

/** The API key, returned only once */
export interface DeviceExchangeBound {
  /** Account that owns the key */
  account_id: string;
  /** The secret key */
  api_key: string;
  status: "bound";
}

/** The code is unknown, expired or already exchanged */
export interface DeviceExchangeExpired {
  status: "expired";
}

/** No person has authorized the app yet */
export interface DeviceExchangePending {
  status: "pending";
}

/** Answer the dialog that waits for an answer, in a session with `dialogs: hold` */
export interface DialogAction {
  /** True to accept the dialog, false to dismiss it */
  accept: boolean;
  kind: "dialog";
  /** Answer to a prompt that is accepted; by default its default value */
  text?: string;
}

export type DialogIntent = IntentStep & {
  kind: "dialog";
  /** True to accept the dialog, false to dismiss it */
  accept: boolean;
  /** Always `•••`: an answer to a prompt is never returned */
  text?: string;
  /** Human-readable description of the dialog */
  dialog?: string;
};

export type DialogPolicy = "dismiss" | "accept" | "hold";

/** Answer the dialog of the page. A text for a prompt is never returned */
export interface DialogRecipeStep {
  /** True to accept it, false to dismiss it */
  accept: boolean;
  kind: "dialog";
  /** True if a text answers a prompt */
  sensitive: boolean;
}

export type DialogType = "alert" | "confirm" | "prompt" | "beforeunload";

/** Request body of both routes that disable the second factor */
export interface DisableMfa {
  /** The literal `disable-mfa` */
  confirm: string;
}

/** Cookie */
export interface DocumentCookie {
  /** Host of the cookie; with a leading dot, subdomains are included */
  domain: string;
  /** Expiry in seconds since 1970; null for a session cookie */
  expires: number | null;
  /** True if scripts cannot read the cookie */
  http_only: boolean;
  /** Cookie name */
  name: string;
  /** Path of the cookie */
  path: string;
  same_site: DocumentCookieSameSite;
  /** True if the cookie is sent only over https */
  secure: boolean;
  /** Cookie value */
  value: string;
}

export type DocumentCookieSameSite = "Strict" | "Lax" | "None";

/** `IndexedDB` database of an origin */
export interface DocumentDatabase {
  /** Database name */
  name: string;
  /** Records of all object stores */
  records: DocumentRecord[];
  /** Object stores */
  stores: DocumentStore[];
  /** Database version */
  version: number;
}

/** Index of an object store */
export interface DocumentIndex {
  /** Key path of the index: one path, or several paths */
  key_path: unknown;
  /** True if each item of an array is a separate key */
  multi_entry: boolean;
  /** Index name */
  name: string;
  /** True if no two records may have the same key */
  unique: boolean;
}

/** Key of a record in an index */
export interface DocumentIndexKey {
  /** Index name */
  index: string;
  /** Key in the index */
  key: unknown;
}

/** Data of a profile that its document omits */
export interface DocumentLack {
  /** Number of omitted items */
  count: number;
  /** Database of the data */
  database?: string;
  /** Top-level site that the data is partitioned under */
  embedded_in?: string;
  /** Origin of the data */
  origin: string;
  reason: DocumentLackReason;
  /** Object store of the data */
  store?: string;
}

export type DocumentLackReason = "unsupported" | "too_large" | "unreadable";

/** Storage of an origin */
export interface DocumentOrigin {
  /** `IndexedDB` databases */
  databases: DocumentDatabase[];
  /** Top-level site this storage is partitioned under */
  embedded_in?: string;
  /** Local storage: names and values, encoded as in docs/profile-format.md */
  local_storage?: unknown[][];
  /** Origin */
  origin: string;
}

/** Record of an object store */
export interface DocumentRecord {
  /** Keys of the record in indexes */
  index_keys?: DocumentIndexKey[];
  /** Record key */
  key: unknown;
  /** Object store of the record */
  store: string;
  /** Record value, encoded as in docs/profile-format.md */
  value: unknown;
}

/** Object store */
export interface DocumentStore {
  /** True if the store generates keys */
  auto_increment: boolean;
  /** Indexes of the store */
  indexes: DocumentIndex[];
  /** Key path of the store: null, one path, or several paths */
  key_path: unknown;
  /** Last generated key */
  last_key: number;
  /** Store name */
  name: string;
}

/** File that a page has downloaded */
export interface Download {
  /** Number of bytes received so far */
  bytes: number;
  /** Media type of the response; null if there is none */
  content_type: string | null;
  /** Time the download began */
  created_at: string;
  error: DownloadError | null;
  /** Name that the server or the page suggests, without a path and without hidden characters, of at most 255 bytes */
  file_name: string;
  /** ID of the download */
  id: string;
  /** Progress of the download */
  status: DownloadStatus;
  /** Address of the file, limited to its first 32,768 characters */
  url: string;
}

/** Download that has begun since the previous operation began. It has ended, or has taken 2 s */
export interface DownloadCondition {
  kind: "download";
}

/** Reason why a download has failed. Clients must accept unknown values */
export type DownloadError = string;

/** Downloads of a session */
export interface DownloadList {
  /** Downloads of all pages, oldest first */
  data: Download[];
}

/** No parameters */
export interface DownloadRecipeCondition {
  kind: "download";
}

/** Download that an operation has started or waited for */
export interface DownloadRef {
  /** Suggested name of the file */
  file_name: string;
  /** ID of the download */
  id: string;
}

/** Progress of a download */
export type DownloadStatus = "in_progress" | "complete" | "failed";

/** Drag with a finger or a mouse, along a path or to another element */
export interface DragAction {
  /** Duration of the movement in milliseconds */
  duration_ms?: number;
  kind: "drag";
  path?: Point[];
  pointer?: PointerKind;
  /** CSS selector of the element where the drag starts; alternative to `target`. Both can be absent with `path` */
  selector?: string;
  target?: Target;
  to?: DragEnd;
}

/** End of a drag */
export interface DragEnd {
  at?: Point;
  /** CSS selector; alternative to `target` */
  selector?: string;
  target?: Target;
}

export type DragIntent = IntentStep & {
  kind: "drag";
  target: IntentTarget;
  to?: IntentTarget;
  /** CSS pixels to the right; absent if there is a `to` */
  delta_x?: number;
  /** CSS pixels down; absent if there is a `to` */
  delta_y?: number;
};

/** Drag an element to another one, or along a path */
export interface DragRecipeStep {
  /** Human-readable description of the element */
  description: string;
  kind: "drag";
  /** Points from the top left corner of the element, in CSS pixels; absent if there is a `to` */
  path?: ({
  /** CSS pixels to the right */
  x: number;
  /** CSS pixels down */
  y: number;
})[];
  /** CSS selector */
  selector: string;
  to?: {
  /** Human-readable description of the element */
  description: string;
  /** CSS selector */
  selector: string;
} & RecipeWithStepsIntentLogTo;
}

/** Capabilities of a session's egress */
export interface EgressCapabilities {
  /** True when the proxy resolves host names */
  dns_remote_resolve: boolean;
  /** Route of QUIC traffic */
  quic_route: string;
  /** True when the proxy relays UDP datagrams */
  udp_associate: boolean;
  /** Warnings about unexpected behaviour */
  warnings: string[];
}

export type ElementRole = "alert" | "alertdialog" | "application" | "article" | "banner" | "blockquote" | "button" | "caption" | "cell" | "checkbox" | "columnheader" | "combobox" | "complementary" | "contentinfo" | "definition" | "dialog" | "document" | "feed" | "figure" | "form" | "grid" | "gridcell" | "group" | "heading" | "iframe" | "img" | "link" | "list" | "listbox" | "listitem" | "log" | "main" | "marquee" | "math" | "menu" | "menubar" | "menuitem" | "menuitemcheckbox" | "menuitemradio" | "meter" | "navigation" | "note" | "option" | "paragraph" | "progressbar" | "radio" | "radiogroup" | "region" | "row" | "rowgroup" | "rowheader" | "scrollbar" | "search" | "searchbox" | "separator" | "slider" | "spinbutton" | "status" | "switch" | "tab" | "table" | "tablist" | "tabpanel" | "term" | "textbox" | "time" | "timer" | "toolbar" | "tooltip" | "tree" | "treegrid" | "treeitem";

/** An e-mail preference */
export interface EmailPreference {
  event_type: OptionalEmail;
  /** True when the account receives these mails, which is the default */
  opted_in: boolean;
}

/** An update of an e-mail preference */
export interface EmailPreferenceChange {
  event_type: OptionalEmail;
  opted_in: boolean;
}

/** All kinds of mail with an opt-out */
export interface EmailPreferenceList {
  data: EmailPreference[];
}

/** Request body of the routes that mail a link */
export interface EmailRequest {
  /** E-mail address to write to */
  email: string;
}

/** Body of `evaluate` */
export interface Evaluate {
  /** Arguments, which the script gets as `args`; at most 64 KiB as JSON. By default there are none */
  args?: unknown[];
  on_timeout?: OnTimeout;
  /** Body of an async function, which can `return` a value and `await` promises */
  script: string;
  /** Timeout in milliseconds */
  timeout_ms?: number;
}

/** Outcome of a script */
export interface Evaluated {
  /** Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. `value` is then null */
  dialog?: OpenDialog;
  /** Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none */
  dialogs?: AnsweredDialog[];
  duration_ms: number;
  exception: ScriptException | null;
  /** True if the script timed out with `on_timeout: return`; it may still be running */
  timed_out?: boolean;
  /** Address of the page after the script */
  url: string;
  /**
   * JSON of the returned value, as `JSON.stringify` makes it. `undefined`, functions and symbols are null, and an element is
   * `{}`. A value of more than 8 MiB is not returned: the request fails with 502 `driver-error`, with `bytes` and `limit_bytes`,
   * and the session stays ready
   */
  value: unknown;
}

/** Clients must accept unknown values */
export type EventType = string;

/** Request body of an exchange */
export interface ExchangeDeviceCode {
  /** `code` of the device code response */
  code: string;
  /** Nonce of the app */
  state: string;
}

/** Header that is added to requests */
export interface ExtraHeader {
  /** Name. `Host`, `Cookie`, `Content-Length` and headers of a single connection are rejected */
  name: string;
  /**
   * Origins that receive the header, such as `https://example.com`; by default all. Required for `Authorization` and
   * `Proxy-Authorization`
   */
  origins?: string[];
  /** Value: printable ASCII characters and spaces. It is never returned */
  value: string;
}

/** Body of `extract` */
export interface Extract {
  /** Values to extract; each needs a unique name */
  extractions: Extraction[];
}

export type ExtractIntent = IntentStep & {
  kind: "extract";
  items: IntentExtraction[];
};

/** Extract values from the page */
export interface ExtractRecipeStep {
  items: ({
  /** Attribute to read; the text if null */
  attribute: string | null;
  /** Human-readable description of the element */
  description: string;
  /** True to read every match */
  list: boolean;
  name: string;
  /** CSS selector; absent if there is a `target` */
  selector?: string;
  target?: RecipeWithStepsIntentLogItemsTarget;
})[];
  kind: "extract";
}

/** Extracted values */
export interface Extracted {
  /** Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. `value` is then null */
  dialog?: OpenDialog;
  /** Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none */
  dialogs?: AnsweredDialog[];
  value: ExtractedValue | null;
}

/**
 * Values by extraction name; null or an empty array if nothing matched. Values of more than 8 MiB in total and lists of more
 * than 10,000 matches are not returned: the request fails with 502 `driver-error`, with `bytes` and `limit_bytes`, or
 * `matches` and `limit_matches`. The session stays ready
 */
export type ExtractedValue = Record<string, unknown>;

/** Value to extract */
export interface Extraction {
  /** Attribute name, for `attribute` */
  attribute?: string;
  extract?: ExtractionExtract;
  /** Key of the value in the response */
  name: string;
  /** CSS selector; alternative to `target` */
  selector?: string;
  target?: Target;
  transform?: ExtractionTransform;
  type: ExtractionType;
}

/**
 * Sub-fields to read from each match of a `list`; the match's text if absent. At most 32 sub-fields, with names of at most
 * 120 characters
 */
export type ExtractionExtract = Record<string, SubExtraction>;

/** Transformation of a text or of each text of a list. `number` keeps the first number, with digits of any script and without group separators. Where a separator can be either, as in `1.234`, the language of the element decides */
export type ExtractionTransform = "number";

export type ExtractionType = "text" | "attribute" | "list" | "box" | "value";

export type FailedOperation = "navigate" | "interact" | "gui_input" | "wait" | "state_capture" | "capture" | "extract" | "search" | "login" | "unknown";

/** Replace the content of a field */
export interface FillAction {
  kind: "fill";
  /** CSS selector; alternative to `target` */
  selector?: string;
  target?: Target;
  /** New content. A field for a date, a time, a color or a range takes the form that HTML defines, such as `2026-11-08` */
  value: string;
}

export type FillIntent = IntentStep & {
  kind: "fill";
  target: IntentTarget;
  /** Always `•••`: a text to type is never returned */
  value: string;
};

/** Type text into an element. The text is never returned */
export interface FillRecipeStep {
  /** Human-readable description of the element */
  description: string;
  kind: "fill";
  /** CSS selector */
  selector: string;
  sensitive: true;
}

/** Secret of a live link */
export interface FollowLiveLink {
  /** Part of the link's address after the `#` */
  link: string;
}

/** Go forward to the next page */
export interface ForwardAction {
  kind: "forward";
}

export type ForwardIntent = IntentStep & {
  kind: "forward";
};

/** No parameters */
export interface ForwardRecipeStep {
  kind: "forward";
}

/**
 * Script in the page's own world, which is repeated until it returns something truthy. A run that throws an exception is
 * repeated too. 409 while the session holds back submissions
 */
export interface FunctionCondition {
  kind: "function";
  /** Body of an async function. A syntax error is a 400 */
  script: string;
}

/** Position that the Geolocation API reports */
export interface Geolocation {
  /** Accuracy in meters */
  accuracy: number;
  /** Degrees north */
  latitude: number;
  /** Degrees east */
  longitude: number;
}

export type GetContract = Record<string, unknown>;

/** The process is alive */
export interface Health {
  status: string;
}

/** Move a mouse to an element or a point, without a press */
export interface HoverAction {
  at?: Point;
  kind: "hover";
  /** CSS selector; alternative to `target`. Both can be absent if `at` is given */
  selector?: string;
  target?: Target;
}

export type HoverIntent = IntentStep & {
  kind: "hover";
  target: IntentTarget;
};

/** Element */
export interface HoverRecipeStep {
  /** Human-readable description of the element */
  description: string;
  kind: "hover";
  /** CSS selector */
  selector: string;
}

export type ImageFormat = "png" | "jpeg" | "webp";

/** An incident */
export interface Incident {
  /** Affected components */
  components: string[];
  /** Time the incident was posted (RFC 3339) */
  created_at: string;
  /** Incident ID */
  id: string;
  impact: IncidentImpact;
  /** Time the incident was resolved (RFC 3339); null while it is open */
  resolved_at: string | null;
  status: IncidentStatus;
  /** Title of the incident */
  title: string;
  /** Time of the last update (RFC 3339) */
  updated_at: string;
  /** Updates, newest first */
  updates: IncidentUpdate[];
}

export type IncidentImpact = "minor" | "major" | "critical";

export type IncidentStatus = "investigating" | "identified" | "monitoring" | "resolved";

/** An update of an incident */
export interface IncidentUpdate {
  /** Time of the update (RFC 3339) */
  created_at: string;
  /** Text of the update */
  message: string;
  status: IncidentStatus;
}

/** Request body of a device code request */
export interface InitiateDevice {
  /** Name of the app */
  client_label?: string;
  /** Random nonce chosen by the app */
  state: string;
}

/** A device code */
export interface InitiatedDevice {
  /** Page where the user enters `user_code` */
  browser_url: string;
  /** Code that the app exchanges for its key, once */
  code: string;
  /** Code that the app shows to the user */
  user_code: string;
}

/** Condition that a step waits for */
export interface IntentCondition {
  kind: IntentConditionKind;
  target?: IntentTarget;
  /** Regular expression, for `url_matches` */
  pattern?: string;
  /** Milliseconds, for `time` */
  ms?: number;
}

export type IntentConditionKind = "selector" | "selector_hidden" | "url_matches" | "time" | "download" | "page";

/** Value to extract */
export interface IntentExtraction {
  /** Key of the value in the result */
  name: string;
  target: IntentTarget;
  /** Attribute to read; the text if null */
  attribute: string | null;
  /** True to read every match */
  list: boolean;
}

/** Page of the browser */
export interface IntentPage {
  /** Page ID; null until the page is found */
  id: string | null;
  /** Human-readable description of the page */
  description: string;
}

/** Members of every step */
export interface IntentStep {
  /** Reason the step failed */
  error: string | null;
  /** Step ID, with which the step is approved */
  id: string;
  /** True if the step submits data and must be approved before it runs */
  needs_approval: boolean;
  result: IntentStepResult | null;
  /** Status of the step */
  status: string;
}

/** Result of the step's operation */
export type IntentStepResult = Record<string, unknown>;

/** Element that a step applies to */
export interface IntentTarget {
  /** CSS selector; null until the element is found */
  selector: string | null;
  /** Human-readable description of the element */
  description: string;
}

/** Body of `interact` */
export interface Interact {
  action: Action;
  on_timeout?: OnTimeout;
  /**
   * Timeout in milliseconds. If absent, a `type` action gets an additional 5 ms plus its `delay_ms` for each character, up to
   * the maximum
   */
  timeout_ms?: number;
}

/** Outcome of an interaction */
export interface Interacted {
  /** With `ok: false`, true if the page has received input, such as a part of the text */
  delivered?: boolean;
  /** Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise */
  dialog?: OpenDialog;
  /** Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none */
  dialogs?: AnsweredDialog[];
  duration_ms: number;
  /** Kind of the action */
  kind: string;
  /** False only if the action timed out with `on_timeout: return`, or if a dialog ended it */
  ok: boolean;
  /**
   * With `ok: false`, the reason, if it is known: no element matches, or the element is not visible, covered by another one,
   * disabled, moving, not editable, outside of the part of the page that can be scrolled to, or has no such option
   */
  reason?: Obstacle;
  /** Address of the page after the action */
  url: string;
}

/** An invitation */
export interface Invite {
  /** Time the invitation was accepted (RFC 3339); null while it is pending */
  accepted_at: string | null;
  /** Time the invitation was created (RFC 3339) */
  created_at: string;
  /** Time the invitation expires (RFC 3339) */
  expires_at: string;
  /** Invitation ID */
  id: string;
  /** Account that created the invitation */
  invited_by_account_id: string;
  /** E-mail address that is invited */
  invitee_email: string;
  /** Account that owns the team */
  owner_account_id: string;
  role: TeamRole;
}

/** Pending invitations, newest first */
export interface InviteList {
  data: Invite[];
}

/** Control with a label */
export interface LabelTarget {
  /** True to match the whole text only, case-sensitive */
  exact?: boolean;
  /** Part of the label, case-insensitive */
  label: string;
}

/** Request body of the routes that take a mailed link */
export interface LinkToken {
  /** Token of the mailed link */
  token: string;
}

/** An account at an identity provider that can sign in to the caller's account */
export interface LinkedIdentity {
  /** Time the identity was linked (RFC 3339) */
  created_at: string;
  /** Name of the provider for people; null if the deployment no longer has the provider */
  display_name: string | null;
  /** ID of the link */
  id: string;
  /** Name of the provider in addresses */
  provider: string;
}

/** Linked identities, newest first */
export interface LinkedIdentityList {
  data: LinkedIdentity[];
}

/** Link to watch a session */
export interface LiveLink {
  /** Time the link was created */
  created_at: string;
  /** Time the link expires */
  expires_at: string;
  /** Link ID */
  id: string;
  /** Session that the link shows */
  session_id: string;
}

/** All valid links, newest first */
export interface LiveLinkList {
  data: LiveLink[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

export type LiveRole = "viewer" | "controller";

/** Ticket for a session's live view */
export interface LiveTicket {
  /** Time the ticket expires */
  expires_at: string;
  /** Page that connects with this ticket */
  page_url: string;
  /** Ticket, valid for one connection. Offer it with the prefix `ticket.` as a WebSocket subprotocol beside `kitfleet.live.v1` */
  ticket: string;
  /** WebSocket address to connect to */
  url: string;
}

/** Body of a request for a ticket */
export interface LiveTicketRequest {
  /** Name of the controller's client, recorded when it takes over an agent session */
  client_id?: string;
  role?: LiveRole;
}

/** Access to an agent session's LiveKit room */
export interface LivekitToken {
  /** Time the token expires. A client that is already connected stays connected */
  expires_at: string;
  /** Room; the token is valid only for this room */
  room: string;
  /** JSON Web Token for the LiveKit SDKs */
  token: string;
  /** Address of the LiveKit server */
  url: string;
}

/** State of the load of the page */
export interface LoadStateCondition {
  kind: "load_state";
  state: WaitUntil;
}

/** Result of a logout */
export interface LoggedOut {
  /** Always true */
  ok: boolean;
}

/** Outcome of a login */
export interface LoginResult {
  /** True if typing reached its safety limit; nothing was submitted then */
  credentials_truncated: boolean | null;
  /**
   * Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The members that are not known are
   * then null
   */
  dialog?: OpenDialog;
  /** Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none */
  dialogs?: AnsweredDialog[];
  duration_ms: number;
  /** True if the login appears to have worked; an estimate, not proof */
  logged_in: boolean | null;
  /** Address after the login; absent if nothing was submitted */
  post_login_url?: string;
  submitted: boolean | null;
}

/** Margins of a PDF */
export interface Margins {
  /** Millimetres at the bottom */
  bottom?: number;
  /** Millimetres at the left */
  left?: number;
  /** Millimetres at the right */
  right?: number;
  /** Millimetres at the top */
  top?: number;
}

/** A membership in a team */
export interface Membership {
  /** Time the invitation was accepted (RFC 3339) */
  accepted_at: string;
  /** Membership ID */
  id: string;
  /** Time of the invitation (RFC 3339) */
  invited_at: string;
  /** Account that created the invitation */
  invited_by_account_id: string;
  /** Account of the member */
  member_account_id: string;
  /** E-mail address of the member */
  member_email: string;
  /** Account that owns the team */
  owner_account_id: string;
  role: TeamRole;
}

/** Members of a team, newest first */
export interface MembershipList {
  data: Membership[];
}

/** Request body of an enrollment verification */
export interface MfaCode {
  /** Six-digit code of the authenticator app */
  code: string;
}

/** Enrollment data for an authenticator app, returned only once */
export interface MfaEnrollment {
  /** Hash algorithm */
  algorithm: string;
  /** Number of digits of a code */
  digits: number;
  /** Secret as a URI, to display as a QR code */
  otpauth_uri: string;
  /** Validity period of a code in seconds */
  period_seconds: number;
  /** Secret as text, to type in */
  secret_base32: string;
}

/** A second factor is required */
export interface MfaRequired {
  /** Time the challenge expires (RFC 3339) */
  challenge_expires_at: string;
  /** Token to send with the code, once, from the same IP address */
  challenge_token: string;
  mfa_required: true;
}

/** Status of the second factor */
export interface MfaStatus {
  /** True when a second factor is enrolled */
  enrolled: boolean;
  /** Time the second factor was enrolled (RFC 3339) */
  enrolled_at: string | null;
  /** Time of the last successful proof (RFC 3339) */
  last_used_at: string | null;
  /** Number of unused recovery codes */
  unused_recovery_codes: number;
}

/** An API key with its secret, which is returned only once */
export type MintedKey = ApiKey & {
  /** The secret key */
  key: string;
  /** The key that this key replaces */
  rotated_from?: string;
};

/** Usage by record type */
export interface MonthTotals {
  /** Taps, texts, scrolls and keys */
  interact: number;
  /** Pages loaded */
  navigate: number;
  /** Screenshots */
  screenshot_capture: number;
  /** Started minutes of sessions */
  session_minute: number;
  /** State reads */
  state_capture: number;
  /** Waits */
  wait: number;
}

/** Body of `navigate` */
export interface Navigate {
  on_failure?: OnTimeout;
  on_timeout?: OnTimeout;
  /** Timeout in milliseconds */
  timeout_ms?: number;
  /** An http or https address */
  url: string;
  wait_until?: WaitUntil;
}

export type NavigateIntent = IntentStep & {
  kind: "navigate";
  /** Address to open */
  url: string;
};

/** Load a page */
export interface NavigateRecipeStep {
  kind: "navigate";
  url: string;
}

/** Outcome of a navigation */
export interface Navigated {
  /** Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The page may still be loading */
  dialog?: OpenDialog;
  /** Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none */
  dialogs?: AnsweredDialog[];
  /** Download that the navigation has turned into. The page before it stays */
  download?: DownloadRef;
  duration_ms: number;
  /** With `on_failure: return`, the reason why there was no response */
  error?: PageError;
  /** Address after redirects, limited to its first 32,768 characters like every address that a page can choose */
  final_url: string;
  /**
   * HTTP status of the main document, or of a response that leaves the previous document in place: 204, 205, 304 or a download.
   * Null only with `on_failure: return` or `on_timeout: return`, if there was no response, and with `dialog`
   */
  status: number | null;
  /** True if the navigation timed out with `on_timeout: return` or `on_failure: return`; the page may still be loading */
  timed_out?: boolean;
  /** Address as requested */
  url: string;
}

/** Request body of an OAuth client creation */
export interface NewClient {
  /** Name of the client, 1 to 120 characters */
  name: string;
  /** Scopes of the credential; the caller can grant only scopes of their own credential */
  scopes: Scope[];
}

/** Request body of an invitation */
export interface NewInvite {
  /** E-mail address to invite; it does not need an account */
  email: string;
  role: TeamRole;
}

/** New link to a trace */
export interface NewTraceLinkBody {
  /** Time the link was created */
  created_at: string;
  /** Time the link expires */
  expires_at: string;
  /** ID of the link */
  id: string;
  /** Address of the trace. It is returned only in this response */
  url: string;
}

/** New link to a session's live view */
export type NewlyMadeLiveLink = LiveLink & {
  /** Page to open. The address is returned only in this response */
  url: string;
};

/** Notification */
export interface Notification {
  /** Time of the event */
  created_at: string;
  data: NotificationData;
  /** Event name. Clients must tolerate unknown events */
  event: string;
  /** Number of the notification, equal to the stream's `id`; later notifications have higher numbers */
  id: string;
}

/** Details of the event. Clients must tolerate unknown members */
export type NotificationData = Record<string, unknown>;

/** A page of notifications, newest first */
export interface NotificationList {
  data: Notification[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** A program that requests its own access tokens */
export interface OauthClient {
  /** Client ID, `ocl_<uuid>` */
  client_id: string;
  /** Secret of the client; only the response of the creation has it */
  client_secret?: string;
  created_at: string;
  name: string;
  /** Maximum scopes of the client's tokens */
  scopes: string[];
}

/** OAuth clients of the account */
export interface OauthClientList {
  data: OauthClient[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Reason why an action was not performed. Clients must accept unknown values */
export type Obstacle = string;

export type OnTimeout = "fail" | "return";

/** Dialog that waits for an answer */
export interface OpenDialog {
  /** Default value of a prompt, limited to its first 1,024 characters; null for other types */
  default_value: string | null;
  /** Message, limited to its first 1,024 characters */
  message: string;
  type: DialogType;
}

/** Origin of an operation */
export interface OperationActor {
  /** ID of the credential, the agent session or the client */
  id: string | null;
  /** Type: `api_key` (also an OAuth token), `web_session`, `agent`, `person`, `webdriver` or `mcp` */
  type: string;
}

export type OptionalEmail = "signup-welcome" | "session-success-first" | "session-failed-first" | "tier-changed" | "billing-receipt" | "billing-renewal-reminder";

/** Orientation of the device */
export type Orientation = "portrait" | "landscape";

/** The caller's account */
export interface OwnAccount {
  /** Time the account was created (RFC 3339) */
  created_at: string;
  /** E-mail address of the account */
  email: string;
  /** Time the e-mail address was verified (RFC 3339); null before that */
  email_verified_at: string | null;
  /** False for an account whose owner signs in only by links or by another provider */
  has_password: boolean;
  /** Account ID */
  id: string;
  /** Limits of the account: individual limits if set, otherwise those of its tier */
  limits: AccountLimits;
  /** True when a second factor is enrolled */
  mfa_enrolled: boolean;
  /** Display name of the account owner */
  name: string;
  status: AccountStatus;
  /** Owners of the teams that the account is a member of */
  teams: TeamOwner[];
  tier: AccountTier;
}

/** Page that was opened since the previous operation began, or is opened during the wait */
export interface PageCondition {
  kind: "page";
}

/** Error of a page */
export interface PageError {
  /** HTTP status, for `http` */
  http_status?: number;
  kind: PageErrorKind;
  message: string;
}

export type PageErrorKind = "http" | "tls" | "dns" | "net" | "timeout";

/** No parameters */
export interface PageRecipeCondition {
  kind: "page";
}

/** Response that a page has received */
export interface PageResponse {
  /** HTTP status of the response */
  status: number;
  /** Address, limited to its first 32,768 characters */
  url: string;
}

/** Snapshot of a page */
export interface PageSnapshot {
  /**
   * Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The members that are not known are
   * then null
   */
  dialog?: OpenDialog;
  /** Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none */
  dialogs?: AnsweredDialog[];
  duration_ms: number;
  /** Number of lines */
  nodes: number | null;
  /**
   * One line for each meaningful element and each text, indented by two spaces for each enclosing element. Names, texts and
   * values are JSON strings. At most 40,000 characters
   */
  snapshot: string | null;
  /** True if the snapshot omits part of the page */
  truncated: boolean | null;
  /** Address of the page */
  url: string;
}

/** Body of `snapshot`, which has no fields */
export type PageSnapshotRequest = Record<string, unknown>;

export type PageStanding = "loading" | "loaded" | "errored";

/** Load state of the page */
export interface PageState {
  /** Error of the page; present if `state` is `errored` */
  error?: PageError;
  state: PageStanding;
}

export type PaidTier = "solo_manual" | "team_manual" | "agency_manual" | "api_starter" | "api_builder" | "api_scale" | "enterprise";

export type Paper = "a4" | "a5" | "letter" | "legal";

/** Field with a placeholder */
export interface PlaceholderTarget {
  /** True to match the whole text only, case-sensitive */
  exact?: boolean;
  /** Part of the placeholder, case-insensitive */
  placeholder: string;
}

/** A tier with its price and limits */
export interface Plan {
  /** Currency of the price */
  currency: string;
  limits: PlanLimits;
  /** Period of the price: `month` */
  period: string;
  /** Price in cents for a period; null if the tier has no price on this deployment */
  price_cents: number | null;
  /** True if the tier can be bought */
  purchasable: boolean;
  tier: AccountTier;
}

/** Limits of a tier */
export interface PlanLimits {
  /** Maximum number of live sessions at the same time */
  concurrent_sessions: number;
  /** Maximum number of profiles */
  profiles: number;
}

/** Plans, from the smallest to the largest */
export interface PlanList {
  data: Plan[];
}

/** Point in CSS pixels. */
export interface Point {
  x: number;
  y: number;
}

export type PointerKind = "touch" | "mouse";

/** A billing portal session */
export interface PortalSession {
  /** Page with the account's invoices, cards and subscriptions */
  portal_url: string;
}

/** Press a key */
export interface PressAction {
  /**
   * Character, or key name such as `Enter`, alone or after modifiers (`Shift`, `Control`, `Alt`, `Meta`), each at most once, as in
   * `Control+Shift+ArrowLeft`. A name has at most 20 characters
   */
  key: string;
  kind: "press";
}

export type PressIntent = IntentStep & {
  kind: "press";
  /** Key or chord */
  key: string;
  target?: IntentTarget;
};

/** Press a key */
export interface PressRecipeStep {
  key: string;
  kind: "press";
}

/** A problem document (RFC 9457) */
export interface Problem {
  /** Kind of problem: address of a page that explains it. The last path segment identifies the kind */
  type: string;
  code: ProblemCode;
  /** Short name of the kind */
  title: string;
  /** HTTP status */
  status: number;
  /** Explanation of this occurrence */
  detail: string;
  /** Path of the request */
  instance: string;
  /** Request ID, also in `X-Request-Id` */
  request_id: string;
}

/** Kind of problem: the last path segment of `type`. Clients must accept unknown values */
export type ProblemCode = string;

/** Browser data that sessions start from and save back to */
export interface Profile {
  /** Account that owns the profile */
  account_id: string;
  /** Archetype of the profile's sessions */
  archetype: string;
  /** Time the profile was created */
  created_at: string;
  /** Time the profile was moved to the recycle bin */
  deleted_at: string | null;
  /** Profile ID */
  id: string;
  /** Time a session last started from the profile */
  last_used_at: string | null;
  /** Name set by the customer */
  name: string;
  /** Size of the stored data in bytes, compressed and sealed */
  size_bytes: number;
  /** Time of the last change */
  updated_at: string;
}

/** Body of a create from another profile or a snapshot; every field is optional */
export interface ProfileCopy {
  /** Name; by default the source's name with an added word */
  name?: string;
}

/** Body of a profile's creation */
export interface ProfileCreate {
  /** Archetype ID from `GET /v1/archetypes`. Default: the one with status `launch` */
  archetype?: string;
  /** Name; it need not be unique */
  name: string;
}

/** Profile as a document */
export interface ProfileDocument {
  /** Archetype of the profile's sessions, an ID from `GET /v1/archetypes` */
  archetype: string;
  /** Cookies of all hosts */
  cookies: DocumentCookie[];
  /** Time of the export */
  exported_at?: string;
  /** Format name: `kitfleet.profile` */
  format: string;
  /** Data of the profile that the document omits */
  left_out: DocumentLack[];
  /** Name of the profile */
  name: string;
  /** Storage of each origin */
  origins: DocumentOrigin[];
  /** Account that owns that profile */
  source_account_id?: string;
  /** Profile that was exported */
  source_profile_id?: string;
  /** Version of the format */
  version: number;
}

/** Body of `POST /v1/profiles/{id}/launch`; every field is optional */
export interface ProfileLaunch {
  behavioral_profile?: BehavioralProfile;
  /** Requests that the browser does not send */
  block?: BlockedRequests;
  /** Color scheme that pages see; `light` by default */
  color_scheme?: ColorScheme;
  /** False if challenges must not pause the session. By default they pause it, if the deployment detects challenges */
  detect_challenges?: boolean;
  dialogs?: DialogPolicy;
  /** Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them */
  extra_headers?: ExtraHeader[];
  /** Position that pages of secure origins see; by default they are denied it */
  geolocation?: Geolocation;
  /** Free text */
  label?: string;
  /** Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session */
  locale?: string;
  metadata?: ProfileLaunchMetadata;
  /** True to cut the browser off from the network */
  offline?: boolean;
  /** Orientation of the device; `portrait` by default */
  orientation?: Orientation;
  /** Purpose: `production_customer`; other values are reserved */
  purpose?: string;
  record?: RecordMode;
  /**
   * Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
   * session, whose browser takes longer to open
   */
  timezone?: string;
  /** Maximum time in milliseconds to wait for a browser if all are taken. 0 does not wait; other values must be at least 100 */
  wait_timeout_ms?: number;
}

/** Customer data, at most 16 KiB as JSON; `profile_id` and `profile_name` are added */
export type ProfileLaunchMetadata = Record<string, unknown>;

/** A page of profiles, newest first */
export interface ProfileList {
  data: Profile[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Clients must accept unknown values */
export type ProfileSaveFailure = string;

/** Data of a profile at one moment */
export interface ProfileSnapshot {
  /** Time the snapshot was taken */
  created_at: string;
  /** Snapshot ID */
  id: string;
  /** Label set by the customer */
  label: string | null;
  /** Profile that the snapshot was taken from */
  profile_id: string;
  /** Size of the stored data in bytes, compressed and sealed */
  size_bytes: number;
}

/** A page of snapshots, newest first */
export interface ProfileSnapshotList {
  data: ProfileSnapshot[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Body of a profile's change */
export interface ProfileUpdate {
  /** New name */
  name: string;
}

/** Result of a provider key test */
export interface ProviderKeyTest {
  outcome: ProviderKeyTestOutcome;
}

export type ProviderKeyTestOutcome = "ok" | "invalid" | "quota_exceeded" | "unknown";

/** Result of a proxy check */
export interface ProxyCheck {
  capabilities: EgressCapabilities | null;
  /** Reason why sessions cannot use the proxy, as text */
  error: string | null;
  /** Public address of sessions that use the proxy, if the deployment determines it */
  exit_address: string | null;
  /** Milliseconds until the proxy was ready for use */
  latency_ms: number | null;
  /** True if a session can use the proxy */
  reachable: boolean;
}

/** Body of a saved proxy's creation and replacement */
export interface ProxySave {
  /**
   * Configuration of a tunnel: for `wireguard` the text of a wg-quick file (at most 16 KiB), for `openvpn` a client profile
   * with inline certificates and keys (at most 64 KiB). On replacement, an absent configuration is kept
   */
  config?: string | null;
  /** Host, for `socks5` and `http`: a name or a public address */
  host?: string;
  /** Label; leading and trailing white space is removed */
  label: string;
  /** Password sent to the proxy, 1 to 255 bytes. On replacement, an absent password is kept, and null removes it */
  password?: string | null;
  /** Port, for `socks5` and `http` */
  port?: number;
  scheme: ProxyScheme;
  /** User name sent to the proxy, 1 to 255 bytes; for `http` without a colon */
  username?: string;
}

export type ProxyScheme = "socks5" | "http" | "wireguard" | "openvpn";

/** Quotas by record type; nothing is metered, so each is null */
export interface Quotas {
  interact: number | null;
  navigate: number | null;
  screenshot_capture: number | null;
  session_minute: number | null;
  state_capture: number | null;
  wait: number | null;
}

/** The process is ready */
export interface Readiness {
  database: string;
  encryption_key: ReadinessEncryptionKey;
  migrations: string;
  status: string;
  workers: ReadinessWorkers;
}

/** Clients must accept unknown values */
export type ReadinessEncryptionKey = string;

/** Clients must accept unknown values */
export type ReadinessWorkers = string;

/** Recorded steps of an agent session */
export interface Recipe {
  /** Account that owns the recipe */
  account_id: string;
  /** Agent session that the recipe was created from; null after that is deleted */
  agent_session_id: string | null;
  /** Time the recipe was created */
  created_at: string;
  /** Description set by the customer */
  description: string;
  /** Recipe ID */
  id: string;
  /** Number of steps */
  intent_count: number;
  /** Label set by the customer */
  label: string;
  /** Same as `created_at`: a recipe never changes */
  updated_at: string;
}

export type RecipeCondition = SelectorRecipeCondition | SelectorHiddenRecipeCondition | UrlMatchesRecipeCondition | TimeRecipeCondition | DownloadRecipeCondition | PageRecipeCondition;

/** Format of a recipe */
export type RecipeFormat = "json" | "curl" | "python" | "typescript";

/** A page of recipes, newest first, without their steps */
export interface RecipeList {
  data: Recipe[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

export type RecipeStep = NavigateRecipeStep | TapRecipeStep | CheckRecipeStep | TypeRecipeStep | FillRecipeStep | PressRecipeStep | SelectRecipeStep | DragRecipeStep | SwipeRecipeStep | HoverRecipeStep | DialogRecipeStep | ActivatePageRecipeStep | ClosePageRecipeStep | SetLocationRecipeStep | ScrollRecipeStep | WaitRecipeStep | CaptureRecipeStep | ExtractRecipeStep | BackRecipeStep | ForwardRecipeStep | ReloadRecipeStep;

/** Suggested label and description of a recipe */
export interface RecipeSuggestion {
  /** Number of steps that the recipe would have now */
  intent_count: number;
  /** Suggested description, valid for a recipe */
  suggested_description: string;
  /** Suggested label, valid for a recipe */
  suggested_label: string;
}

/** Recipe with its steps */
export type RecipeWithSteps = Recipe & {
  intent_log: RecipeStep[];
};

/** Element query, in the form that operations accept */
export type RecipeWithStepsIntentLogConditionTarget = Record<string, unknown>;

/** Element query, in the form that operations accept */
export type RecipeWithStepsIntentLogItemsTarget = Record<string, unknown>;

/** Element where the drag ends; absent if there is a `path` */
export type RecipeWithStepsIntentLogTo = Record<string, unknown>;

export type RecordMode = "off" | "steps";

/** Recovery codes, returned only once */
export interface RecoveryCodes {
  /** Ten recovery codes; each is valid once */
  recovery_codes: string[];
}

/** Element of a snapshot */
export interface RefTarget {
  /** Element's `ref` in the snapshot */
  ref: string;
}

/** Reload the page */
export interface ReloadAction {
  kind: "reload";
}

export type ReloadIntent = IntentStep & {
  kind: "reload";
};

/** No parameters */
export interface ReloadRecipeStep {
  kind: "reload";
}

/** Request of a page */
export interface RequestEntry {
  /** Time the request ended */
  at: string;
  duration_ms: number | null;
  /** Failure of the request */
  error: string | null;
  /** Address of the frame that made the request */
  frame_url: string | null;
  method: string;
  mime_type: string | null;
  request_bytes: number | null;
  /** Type of the resource, such as `document` or `image` */
  resource_type: string;
  response_bytes: number | null;
  /** Number of the event */
  seq: number;
  status: number | null;
  /** Address. Values of parameters that are named like secrets are `•••` */
  url: string;
}

/** A page of requests, oldest first */
export interface RequestList {
  data: RequestEntry[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Response of an e-mail address change; it is the same whether or not another account has the address */
export interface RequestedEmailChange {
  /** True in every answer */
  sent: boolean;
}

/** Request body of a password reset */
export interface ResetPassword {
  /** New password, at least 12 characters */
  new_password: string;
  /** Token of the mailed link */
  token: string;
}

/** Challenge and its outcome */
export interface ResolvedChallenge {
  /** Challenge ID */
  challenge_id: string;
  /** Confidence of the detection, from 0 to 1 */
  confidence: number;
  /** Evidence for the detection, as text */
  detail: string;
  /** Time the challenge was detected */
  detected_at: string;
  /** Time the challenge ended */
  ended_at: string | null;
  outcome: ChallengeOutcome | null;
  /** Session in which the challenge appeared */
  session_id: string;
  type: ChallengeType;
}

/** Type of a request that can be blocked */
export type ResourceType = "image" | "media" | "font" | "stylesheet" | "script" | "websocket" | "xhr";

/**
 * Response that a page of the session has received since the previous operation began, or receives during the wait. The newest
 * 1,000 responses are known
 */
export interface ResponseCondition {
  kind: "response";
  /** HTTP status; any if absent */
  status?: number;
  /** Regular expression for the address, as `pattern` of `url_matches` */
  url_pattern: string;
}

/** Result of signing out all other devices */
export interface RevokedWebSessions {
  /** Number of devices signed out */
  revoked: number;
}

/** Element with a role */
export interface RoleTarget {
  /** True to match the whole text only, case-sensitive */
  exact?: boolean;
  /** Part of the accessible name, case-insensitive */
  name?: string;
  role: ElementRole;
}

/** A new secret of an OAuth client, returned only once */
export interface RotatedClientSecret {
  /** ID of the client */
  client_id: string;
  /** New secret of the client */
  client_secret: string;
  /** Time the previous secret stops working (RFC 3339) */
  grace_expires_at: string;
}

/** A new signing secret, returned only once */
export interface RotatedSecret {
  /** Time the previous secret stops signing (RFC 3339) */
  grace_expires_at: string;
  /** Webhook endpoint ID */
  id: string;
  /** First characters of the previous secret */
  prev_secret_prefix: string;
  /** New signing secret */
  secret: string;
  /** First characters of the new secret */
  secret_prefix: string;
}

/** `SameSite` of a cookie */
export type SameSite = "strict" | "lax" | "none";

/** Saved proxy, without its secrets */
export interface SavedProxy {
  /** Time the proxy was saved */
  created_at: string;
  /** True if a configuration is stored */
  has_config: boolean;
  /** True if a password is stored */
  has_password: boolean;
  /** Host of the proxy, or of the server in the tunnel configuration */
  host: string;
  /** Proxy ID */
  id: string;
  /** Label set by the customer */
  label: string;
  /** Port of the proxy or server */
  port: number;
  scheme: ProxyScheme;
  /** Time of the last change */
  updated_at: string;
  /** User name sent to the proxy */
  username: string | null;
}

/** Saved proxies, newest first */
export interface SavedProxyList {
  data: SavedProxy[];
}

export type Scope = "read" | "write" | "account_owner" | "read:audit" | "read:sessions" | "write:sessions" | "read:profiles" | "write:profiles" | "read:webhooks" | "read:usage" | "read:agents" | "write:agents";

/** Exception of a script */
export interface ScriptException {
  /** Line of the script, starting at 1; null if the exception is from no line of the script */
  line: number | null;
  /** Message of the error, or the thrown value as text, limited to its first 4,096 characters */
  message: string;
  /** Name of the error, such as `TypeError`; `Error` for a thrown value that has no name */
  name: string;
}

/** Scroll the page or a scrollable element */
export interface ScrollAction {
  /** Pixels to the right */
  delta_x?: number;
  /** Pixels down */
  delta_y?: number;
  kind: "scroll";
  /** CSS selector; alternative to `target`. If both are absent, the page scrolls */
  selector?: string;
  target?: Target;
}

export type ScrollIntent = IntentStep & {
  kind: "scroll";
  /** CSS pixels to the right */
  delta_x: number;
  /** CSS pixels down */
  delta_y: number;
  target?: IntentTarget;
};

/** Scroll the page or a scrollable element */
export interface ScrollRecipeStep {
  /** Pixels to the right */
  delta_x: number;
  /** Pixels down */
  delta_y: number;
  /** Human-readable description of the element */
  description?: string;
  kind: "scroll";
  /** CSS selector; absent if the page scrolls */
  selector?: string;
}

/** Outcome of a search */
export interface SearchResult {
  /**
   * Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The members that are not known are
   * then null
   */
  dialog?: OpenDialog;
  /** Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none */
  dialogs?: AnsweredDialog[];
  duration_ms: number;
  /** True if typing reached its safety limit; nothing was submitted then */
  query_truncated: boolean | null;
  /** True if the element of `wait_for_results_selector` appeared in time; absent without that selector */
  results_visible?: boolean;
  submitted: boolean | null;
}

export type SecondFactor = "totp" | "recovery";

/** Select an option of a `<select>` element */
export interface SelectAction {
  kind: "select";
  /** Value or label of the option; alternative to `options` */
  option?: string;
  /** Values or labels of the options. They replace the selection, also of a menu with multiple selection */
  options?: string[];
  /** CSS selector; alternative to `target` */
  selector?: string;
  target?: Target;
}

export type SelectIntent = IntentStep & {
  kind: "select";
  target: IntentTarget;
  /** Option to select */
  option: string;
};

/** Select an option */
export interface SelectRecipeStep {
  /** Human-readable description of the element */
  description: string;
  kind: "select";
  option: string;
  /** CSS selector */
  selector: string;
}

/** Visible element */
export interface SelectorCondition {
  kind: "selector";
  /** CSS selector; alternative to `target` */
  selector?: string;
  target?: Target;
}

/** Visible element */
export interface SelectorHiddenCondition {
  kind: "selector_hidden";
  /** CSS selector; alternative to `target` */
  selector?: string;
  target?: Target;
}

/** Element, located by a selector or by a query */
export interface SelectorHiddenRecipeCondition {
  /** Human-readable description of the element */
  description: string;
  kind: "selector_hidden";
  /** CSS selector; absent if there is a `target` */
  selector?: string;
  target?: RecipeWithStepsIntentLogConditionTarget;
}

/** Element, located by a selector or by a query */
export interface SelectorRecipeCondition {
  /** Human-readable description of the element */
  description: string;
  kind: "selector";
  /** CSS selector; absent if there is a `target` */
  selector?: string;
  target?: RecipeWithStepsIntentLogConditionTarget;
}

/** Element matched by a CSS selector, which must match no other element */
export interface SelectorTarget {
  selector: string;
}

/** A delivery that was created by this request */
export interface SentDelivery {
  /** Delivery ID */
  delivery_id: string;
  /** Event ID */
  event_id: string;
  event_type: EventType;
}

/** Response of the routes that mail a link; it is the same whether or not the address has an account */
export interface SentEmail {
  /** Time a mailed link expires (RFC 3339) */
  expires_at: string;
  /** Always true */
  sent: boolean;
}

/** Result of an invitation */
export interface SentInvite {
  /** Message for people */
  message: string;
}

/** Status of the service */
export interface ServiceStatus {
  /** Components of the service */
  components: ShownComponent[];
  /** Last 90 days in UTC, newest first */
  history: ShownDay[];
  /** Open incidents, newest first */
  incidents: Incident[];
  /** Time the components were measured (RFC 3339); null when this process has not measured them yet */
  measured_at: string | null;
  status: ComponentState;
}

/** Session */
export interface Session {
  /** Account that owns the session */
  account_id: string;
  /** Agent session that uses the session as its driver; null after that is deleted */
  agent_session_id: string | null;
  /** API key that created the session; null if a web session created it */
  api_key_id: string | null;
  /** Archetype of the browser */
  archetype: string;
  challenge: SessionChallenge | null;
  /** Time the session was requested */
  created_at: string;
  /** Time the session was destroyed */
  destroyed_at: string | null;
  dialog: OpenDialog | null;
  egress_capabilities: EgressCapabilities | null;
  egress_capability_report: SessionEgressCapabilityReport | null;
  /** Emulation in force, without the values of headers */
  emulation: SessionEmulation;
  end_reason: SessionEndReason | null;
  error: SessionFailure | null;
  /** Session ID */
  id: string;
  /** Label set by the customer */
  label: string | null;
  /** Time of the last successful state read */
  last_state_at: string | null;
  /** Address of the page after the last recorded operation; null if nothing is recorded */
  last_url: string | null;
  metadata: SessionMetadata | null;
  /** Number of operations in the recording; null if nothing is recorded */
  operation_count: number | null;
  /** Profile that the session started from; null after that is purged */
  profile_id: string | null;
  /** Saved proxy that the browser connects through */
  proxy_id: string | null;
  /** Purpose of the session */
  purpose: string;
  record: RecordMode;
  status: SessionStatus;
  /** Time of the last change */
  updated_at: string;
}

/** Challenge that pauses a session */
export interface SessionChallenge {
  /** Challenge ID */
  challenge_id: string;
  /** Time the challenge was detected */
  detected_at: string;
  type: ChallengeType;
}

/** The `data` of `session.challenge_detected` */
export interface SessionChallengeDetected {
  /** Details of the challenge */
  challenge: Challenge;
  /** Challenge ID */
  challenge_id: string;
  /** Session ID */
  session_id: string;
}

/** A page challenges a session to prove that it is human */
export interface SessionChallengeDetectedEvent {
  /** Event ID; it is the same in every attempt */
  id: string;
  type: "session.challenge_detected";
  /** Time of the event */
  created_at: string;
  data: SessionChallengeDetected;
}

/** The `data` of `session.completed` */
export interface SessionCompleted {
  auto_destroyed?: true;
  /** Lifetime of the session in milliseconds */
  duration_ms: number;
  reason?: AutoDestroyReason;
  /** Session ID */
  session_id: string;
}

/** A session was destroyed */
export interface SessionCompletedEvent {
  /** Event ID; it is the same in every attempt */
  id: string;
  type: "session.completed";
  /** Time of the event */
  created_at: string;
  data: SessionCompleted;
}

/** Cookie of a session's browser */
export interface SessionCookie {
  /** Host of the cookie; with a leading dot also its subdomains */
  domain: string;
  /** Time at which the browser deletes the cookie, in whole seconds; null for a cookie that lasts as long as the browser */
  expires: string | null;
  /** True if scripts cannot read the cookie */
  http_only: boolean;
  name: string;
  path: string;
  /** `SameSite` of the cookie; `none` also for a cookie without the attribute */
  same_site: SameSite;
  /** True if the cookie is sent over TLS only */
  secure: boolean;
  value: string;
}

/** Cookie to set */
export interface SessionCookieSet {
  /** Host of the cookie; with a leading dot also its subdomains */
  domain: string;
  /** Time at which the browser deletes the cookie, in the future; by default the cookie lasts as long as the browser */
  expires?: string;
  /** True to hide the cookie from scripts */
  http_only?: boolean;
  /** Name without `=`, `;` and control characters */
  name: string;
  /** Path of the cookie */
  path?: string;
  /** `SameSite` of the cookie; `none` by default */
  same_site?: SameSite;
  /** True to send the cookie over TLS only */
  secure?: boolean;
  /** Value without `;` and control characters; at most 4,096 bytes with the name */
  value: string;
}

/** Cookies of a session's browser */
export interface SessionCookies {
  /** Cookies of all hosts */
  data: SessionCookie[];
}

/** Body of a change of cookies */
export interface SessionCookiesSet {
  /** Cookies to set */
  cookies: SessionCookieSet[];
}

/** Body of `POST /v1/sessions`; every field is optional */
export interface SessionCreate {
  /**
   * Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status
   * `launch`
   */
  archetype?: string;
  behavioral_profile?: BehavioralProfile;
  /** Requests that the browser does not send */
  block?: BlockedRequests;
  /** Color scheme that pages see; `light` by default */
  color_scheme?: ColorScheme;
  /** False if challenges must not pause the session. By default they pause it, if the deployment detects challenges */
  detect_challenges?: boolean;
  dialogs?: DialogPolicy;
  /** Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them */
  extra_headers?: ExtraHeader[];
  /** Position that pages of secure origins see; by default they are denied it */
  geolocation?: Geolocation;
  /** Free text */
  label?: string;
  /** Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session */
  locale?: string;
  metadata?: SessionCreateMetadata;
  /** True to cut the browser off from the network */
  offline?: boolean;
  /** Orientation of the device; `portrait` by default */
  orientation?: Orientation;
  /**
   * Profile that the session starts from, with the cookies and storage of earlier sessions. A profile can have one live
   * session at a time. Requires `write:profiles` in addition to `write:sessions`
   */
  profile_id?: string;
  /** Purpose: `production_customer`; other values are reserved */
  purpose?: string;
  record?: RecordMode;
  /**
   * Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
   * session, whose browser takes longer to open
   */
  timezone?: string;
  /** Maximum time in milliseconds to wait for a browser if all are taken. 0 does not wait; other values must be at least 100 */
  wait_timeout_ms?: number;
}

/** Customer data, at most 16 KiB as JSON */
export type SessionCreateMetadata = Record<string, unknown>;

/** The `data` of `session.egress_capability_changed` */
export interface SessionEgressCapabilityChanged {
  /** Capabilities of the session's proxy */
  egress_capabilities: EgressCapabilities;
  /** Session ID */
  session_id: string;
}

/** The capabilities of a session's proxy are known */
export interface SessionEgressCapabilityChangedEvent {
  /** Event ID; it is the same in every attempt */
  id: string;
  type: "session.egress_capability_changed";
  /** Time of the event */
  created_at: string;
  data: SessionEgressCapabilityChanged;
}

/** Egress capabilities as the harness reported them */
export type SessionEgressCapabilityReport = Record<string, unknown>;

/** Emulation of a session, without the values of its headers */
export interface SessionEmulation {
  /** Requests that the browser does not send */
  block: BlockedRequests;
  /** Color scheme that pages see */
  color_scheme: ColorScheme;
  /** Headers added to requests, without their values */
  extra_headers: AddedHeader[];
  geolocation: Geolocation | null;
  /** Language of the browser */
  locale: string;
  /** True while the browser is cut off from the network */
  offline: boolean;
  /** Orientation of the device */
  orientation: Orientation;
  /** Time zone of the browser; null for the time zone of the worker */
  timezone: string | null;
}

/** Body of a change of the emulation; at least one member is required. An absent member does not change */
export interface SessionEmulationUpdate {
  block?: BlockedRequests | null;
  color_scheme?: ColorScheme | null;
  /** Headers added to requests, at most 4 KiB in all. They replace the earlier ones; null removes all */
  extra_headers?: ExtraHeader[] | null;
  geolocation?: Geolocation | null;
  /** True to cut the browser off from the network; null for false */
  offline?: boolean | null;
  orientation?: Orientation | null;
}

export type SessionEndReason = "customer" | "free_tier_cap" | "suspended" | "staff" | "idle" | "worker_lost" | "failed" | "max_age";

export type SessionErrorName = "SessionTimeoutError" | "DriverError" | "DriverNotIntegratedError" | "UnknownError";

/** The `data` of `session.failed` */
export interface SessionFailed {
  /** Lifetime of the session in milliseconds; absent when unknown */
  duration_ms?: number;
  /** Error message for people */
  error_message: string;
  error_name: SessionErrorName;
  operation: FailedOperation;
  /** Session ID */
  session_id: string;
}

/** A session errored */
export interface SessionFailedEvent {
  /** Event ID; it is the same in every attempt */
  id: string;
  type: "session.failed";
  /** Time of the event */
  created_at: string;
  data: SessionFailed;
}

/** Error that ended a session */
export interface SessionFailure {
  /** Message for people */
  message: string;
  name: SessionErrorName;
}

/** A page of sessions, newest first */
export interface SessionList {
  /** The sessions */
  data: Session[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Body of `login` */
export interface SessionLogin {
  password: string;
  /** CSS selector of the password field; detected automatically if absent */
  password_selector?: string;
  /** CSS selector of the submit button; detected automatically if absent */
  submit_selector?: string;
  /** CSS selector of an element that appears after a successful login */
  success_selector?: string;
  /** Timeout of each step in seconds */
  timeout_seconds?: number;
  username: string;
  /** CSS selector of the user name field; detected automatically if absent */
  username_selector?: string;
}

/** Data set by the customer */
export type SessionMetadata = Record<string, unknown>;

/** Operation of a session */
export interface SessionOperation {
  /** Precise name, such as `tap` or `screenshot` */
  action: string;
  actor: OperationActor | null;
  /** Operation in words. It contains no typed text */
  description: string;
  duration_ms: number | null;
  /** Time of the end */
  ended_at: string | null;
  /** Detail of an outcome that is not `done` */
  error: string | null;
  /** True if the recording has a picture after the operation */
  has_frames: boolean;
  /** ID of the operation */
  id: string;
  /** Kind of the operation, as in `session.failed` */
  kind: string;
  /**
   * Outcome: `done` (also with `ok: false` or `matched: false`), `failed`, `timeout`, `invalid`, `withheld`, `destroyed`,
   * `unknown` or `running`
   */
  outcome: string;
  /** Time the browser began */
  started_at: string | null;
  /** Address of the page after the operation, if it is known */
  url: string | null;
}

/** A page of operations, newest first */
export interface SessionOperationList {
  data: SessionOperation[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Page of a session */
export interface SessionPage {
  /** True for the page that operations act on */
  active: boolean;
  /** Page ID */
  id: string;
  /** Page that opened this one by a link or a script, and may be closed; null if there is none */
  opener_id: string | null;
  /** Title of the page, limited to its first 4,096 characters */
  title: string | null;
  /** Address of the page, limited to its first 32,768 characters */
  url: string;
}

/** Body of a new page; the field is optional */
export interface SessionPageOpen {
  /** An http or https address; by default the page is blank */
  url?: string;
}

/** Pages of a session, oldest first */
export interface SessionPages {
  /** Pages, at most 8 */
  data: SessionPage[];
}

/** The `data` of `session.profile_save_failed` */
export interface SessionProfileSaveFailed {
  /** Error message for people */
  detail: string;
  /** Profile ID */
  profile_id: string;
  reason: ProfileSaveFailure;
  /** Session ID */
  session_id: string;
}

/** A session's state could not be saved to its profile */
export interface SessionProfileSaveFailedEvent {
  /** Event ID; it is the same in every attempt */
  id: string;
  type: "session.profile_save_failed";
  /** Time of the event */
  created_at: string;
  data: SessionProfileSaveFailed;
}

/** Body of `search` */
export interface SessionSearch {
  /** Text to search for */
  query: string;
  /** CSS selector of the search field; detected automatically if absent */
  search_selector?: string;
  /** True to submit the form */
  submit?: boolean;
  /** Timeout of each step in seconds */
  timeout_seconds?: number;
  /** CSS selector of an element that appears with the results */
  wait_for_results_selector?: string;
}

/** State of a session's browser */
export interface SessionState {
  captured_at: string;
  /** Cookies, at most 1,000 */
  cookies: SessionStateCookies[];
  local_storage: SessionStateLocalStorage | null;
  page_state: PageState | null;
  /** Title of the page, limited to its first 4,096 characters */
  title: string | null;
  /** True if the address, title, cookies or storage were truncated; absent otherwise */
  truncated?: boolean;
  /** Address of the page, limited to its first 32,768 characters */
  url: string;
}

export type SessionStateCookies = Record<string, unknown>;

/** Local storage of the page's origin, at most 1 MiB; null while the page shows a dialog that waits for an answer */
export type SessionStateLocalStorage = Record<string, string>;

export type SessionStatus = "creating" | "ready" | "busy" | "destroyed" | "errored";

/** Request body of refresh and logout */
export interface SessionToken {
  /** Token of the web session */
  token: string;
}

export type SetLocationIntent = IntentStep & {
  kind: "set_location";
  /** Degrees north */
  latitude: number;
  /** Degrees east */
  longitude: number;
};

/** Set the position that pages see */
export interface SetLocationRecipeStep {
  kind: "set_location";
  /** Degrees north */
  latitude: number;
  /** Degrees east */
  longitude: number;
}

/** Request body of a password change */
export interface SetPassword {
  /** Current password of the account */
  current_password: string;
  /** New password, at least 12 characters */
  new_password: string;
}

/** Request body that sets a provider key */
export interface SetProviderKey {
  /** The provider's API key. No response returns it */
  key: string;
}

/** A component of the service */
export interface ShownComponent {
  name: Component;
  state: ComponentState;
}

/** A day of the history */
export interface ShownDay {
  /** Components of the service on that day */
  components: ShownDayOfComponent[];
  /** Date in UTC */
  date: string;
}

/** A component of the service on one day */
export interface ShownDayOfComponent {
  name: Component;
  /** Number of samples on that day, normally one per minute */
  samples: number;
  state: ComponentState;
  /** Fraction of the samples without an outage; null without samples */
  uptime: number | null;
}

/** Request body of a login */
export interface SignIn {
  /** E-mail address of the account */
  email: string;
  /** Password of the account */
  password: string;
}

/** Result of a sign-in: a session or, for an account with a second factor, a challenge. Clients check `mfa_required`. */
export type SignInResult = SignedIn | MfaRequired;

/** Request body of a sign-up */
export interface SignUp {
  /** E-mail address of the account */
  email: string;
  /** Display name of the account owner */
  name: string;
  /** Password, at least 12 characters */
  password: string;
}

/** Signed in */
export interface SignedIn {
  /**
   * Token to set a new password. It is present when the sign-up password was removed; send it to
   * `/v1/auth/password-reset/confirm` within 60 minutes
   */
  password_reset_token?: string;
  /** The web session */
  session: WebSession;
}

/** A signed-in device */
export interface SignedInDevice {
  /** Time of the sign-in (RFC 3339) */
  created_at: string;
  /** True for the session of this request */
  current: boolean;
  /** Time the session expires (RFC 3339) */
  expires_at: string;
  /** Web session ID */
  id: string;
  /** IP address of the sign-in */
  ip_address: string | null;
  /** Time of the last request (RFC 3339) */
  last_used_at: string;
  /** User agent of the sign-in */
  user_agent: string | null;
}

/** Signed-in devices, newest first */
export interface SignedInDevices {
  data: SignedInDevice[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Result of a sign-up */
export interface SignedUp {
  /** Time the mailed link expires (RFC 3339) */
  verification_email_expires_at: string;
}

/** Body of a snapshot's creation; every field is optional */
export interface SnapshotCreate {
  /** Free text */
  label?: string;
}

/** Request body of a subscription */
export interface StatusSubscription {
  /** E-mail address to notify of incidents */
  email: string;
}

/** Request body of a step-up */
export interface StepUpProof {
  /** Six-digit code of the authenticator app, or a recovery code */
  code: string;
}

/** Result of a step-up */
export interface SteppedUp {
  /** Time of the proof (RFC 3339); it counts as recent for 15 minutes */
  mfa_satisfied_at: string;
  via: SecondFactor;
}

/** Value to extract from each match of a list */
export interface SubExtraction {
  /** Attribute name, for `attribute` */
  attribute?: string;
  /** CSS selector, evaluated inside the match. `:scope` is the match itself */
  selector: string;
  type: SubExtractionType;
}

export type SubExtractionType = "text" | "attribute" | "box" | "value";

export type SubscribableEventType = "session.completed" | "session.failed" | "api_key.revoked" | "session.egress_capability_changed" | "crypto.order.paid" | "crypto.order.failed" | "session.challenge_detected" | "session.profile_save_failed";

/** Response to a subscription; it is the same for every address */
export interface SubscriptionAsked {
  /** Time the mailed link expires (RFC 3339) */
  expires_at: string | null;
  /** Always true */
  sent: boolean;
}

/** Swipe on the page or an element */
export interface SwipeAction {
  direction: SwipeDirection;
  /** CSS pixels. If absent, 60 % of the element or of the viewport */
  distance?: number;
  /** Duration of the movement in milliseconds */
  duration_ms?: number;
  kind: "swipe";
  /** CSS selector; alternative to `target`. If both are absent, the finger swipes on the page */
  selector?: string;
  target?: Target;
}

export type SwipeDirection = "up" | "down" | "left" | "right";

export type SwipeIntent = IntentStep & {
  kind: "swipe";
  direction: SwipeDirection;
  /** CSS pixels; absent for most of the page or the element */
  distance?: number;
  target?: IntentTarget;
};

/** Swipe with a finger */
export interface SwipeRecipeStep {
  /** Human-readable description of the element */
  description?: string;
  direction: SwipeDirection;
  /** CSS pixels; absent for most of the page or the element */
  distance?: number;
  kind: "swipe";
  /** CSS selector; absent for the page */
  selector?: string;
}

/** Tap on an element, or on a point of the viewport */
export interface TapAction {
  at?: Point;
  /** Number of taps in quick succession */
  count?: number;
  /** Milliseconds that the finger stays on the screen, for a long press. If absent, those of the behavioral profile */
  hold_ms?: number;
  kind: "tap";
  /** CSS selector; alternative to `target`. Both can be absent if `at` is given */
  selector?: string;
  target?: Target;
}

export type TapIntent = IntentStep & {
  kind: "tap";
  target: IntentTarget;
  /** Number of taps; absent for one */
  count?: number;
  /** Milliseconds that the finger stays; absent for a short tap */
  hold_ms?: number;
};

/** Tap an element */
export interface TapRecipeStep {
  /** Number of taps; absent for one */
  count?: number;
  /** Human-readable description of the element */
  description: string;
  /** Milliseconds that the finger stays; absent for a short tap */
  hold_ms?: number;
  kind: "tap";
  /** CSS selector */
  selector: string;
}

export type Target = SelectorTarget | RoleTarget | LabelTarget | TextTarget | PlaceholderTarget | RefTarget | null;

/** A team */
export interface Team {
  /** Time the team was created (RFC 3339) */
  created_at: string;
  /** Team ID */
  id: string;
  /** Name of the team */
  name: string;
  /** Account that owns the team */
  owner_account_id: string;
  /** Always null */
  slug: string | null;
  /** Time the team was last renamed (RFC 3339) */
  updated_at: string;
}

/** Teams that the caller owns */
export interface TeamList {
  data: Team[];
}

/** Owner of a team that the caller is a member of */
export interface TeamOwner {
  /** Membership ID of the caller */
  membership_id: string;
  /** Account that owns the team; the value to send in `X-Service-Account` */
  owner_account_id: string;
  /** E-mail address of the owner */
  owner_email: string;
  /** Display name of the owner */
  owner_name: string | null;
  role: TeamRole;
}

/** Owners of the teams that the caller is a member of, newest first */
export interface TeamOwnerList {
  data: TeamOwner[];
}

export type TeamRole = "member" | "admin";

/** The `data` of `test.ping` */
export interface TestPing {
  /** Webhook endpoint ID */
  endpoint_id: string;
  /** Message for people */
  message: string;
  /** Account that requested the test */
  triggered_by_account_id: string;
}

/** A test of the endpoint */
export interface TestPingEvent {
  /** Event ID; it is the same in every attempt */
  id: string;
  type: "test.ping";
  /** Time of the event */
  created_at: string;
  data: TestPing;
}

/** Visible text of the page, in any frame */
export interface TextCondition {
  kind: "text";
  /** Part of the text, compared as the words of a target */
  text: string;
}

/** Innermost element with a text */
export interface TextTarget {
  /** True to match the whole text only, case-sensitive */
  exact?: boolean;
  /** Part of the text, case-insensitive */
  text: string;
}

/** Period of time */
export interface TimeCondition {
  kind: "time";
  /** Milliseconds to wait */
  ms: number;
}

/** Period of time */
export interface TimeRecipeCondition {
  kind: "time";
  /** Milliseconds */
  ms: number;
}

/** A page of events, oldest first */
export interface Timeline {
  data: TimelineEvent[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/**
 * Event of a timeline
 *
 * Members other than `seq`, `at` and `type` depend on the type. Clients must tolerate unknown types and members.
 */
export interface TimelineEvent {
  /** Time of the event */
  at: string;
  /** Number of the event; later events have higher numbers */
  seq: number;
  /** Type: `operation`, `console`, `request`, `dialog`, `page`, `download`, `frame`, `control`, `challenge` or `recording` */
  type: string;
}

/** An access token (RFC 6749, section 5.1) */
export interface TokenAnswer {
  /** Access token, `svc_oauth_…` */
  access_token: string;
  /** Lifetime of the token in seconds */
  expires_in: number;
  /** Space-separated scopes of the token */
  scope: string;
  /** The literal `Bearer` */
  token_type: string;
}

/** A token request. A client that uses HTTP Basic authentication leaves out `client_id` and `client_secret` */
export interface TokenForm {
  client_id?: string;
  client_secret?: string;
  /** The literal `client_credentials` */
  grant_type: string;
  /** Space-separated scopes; all scopes of the client when absent */
  scope?: string;
}

/** Link to a trace */
export interface TraceLink {
  /** Time the link was created */
  created_at: string;
  /** Time the link expires */
  expires_at: string;
  /** ID of the link */
  id: string;
}

/** All valid links, newest first */
export interface TraceLinkList {
  data: TraceLink[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** Type text into an element */
export interface TypeAction {
  /** Milliseconds between keys. The delays of the whole text must not exceed the maximum `timeout_ms` */
  delay_ms?: number;
  kind: "type";
  /** CSS selector; alternative to `target` */
  selector?: string;
  /** True to treat the text as sensitive. Text typed into a password field is always sensitive */
  sensitive?: boolean;
  target?: Target;
  text: string;
}

export type TypeIntent = IntentStep & {
  kind: "type";
  target: IntentTarget;
  /** Always `•••`: a text to type is never returned */
  value: string;
};

/** Type text into an element. The text is never returned */
export interface TypeRecipeStep {
  /** Human-readable description of the element */
  description: string;
  kind: "type";
  /** CSS selector */
  selector: string;
  sensitive: true;
}

/** Request body of an account update */
export interface UpdateAccount {
  /** Display name of the account owner */
  name: string;
}

/** Request body of an API key update */
export interface UpdateKey {
  /** Name of the key */
  name: string;
}

/** Request body of a membership update */
export interface UpdateMembership {
  role: TeamRole;
}

/** Request body of a team update */
export interface UpdateTeam {
  /** Name of the team */
  name: string;
}

/** Request body of a webhook endpoint update; at least one field is required */
export interface UpdateWebhook {
  /** True to deliver events, false to pause the endpoint */
  active?: boolean | null;
  /** Description by the account owner; null removes it */
  description?: string | null;
  events?: SubscribableEventType[] | null;
  /** URL that deliveries are sent to */
  url?: string | null;
}

/** Result of a team update */
export interface UpdatedTeam {
  team: Team;
}

/** Give files to a file input, or to the file chooser that an element opens */
export interface UploadAction {
  /** Files, of at most 16 MiB in all */
  files: UploadFile[];
  kind: "upload";
  /**
   * CSS selector of a file input, which may be hidden, or of an element that opens a file chooser when it is tapped;
   * alternative to `target`. Both can be absent if the last tap has opened a file chooser
   */
  selector?: string;
  target?: Target;
}

/** File of an upload */
export interface UploadFile {
  /** Content of the file in base64 */
  content: string;
  /** Media type. The page sees the one that a browser derives from the name */
  content_type?: string;
  /** Name that the page sees. Of a path only the last part counts, and hidden characters are removed */
  name: string;
}

export type UploadIntent = IntentStep & {
  kind: "upload";
  target: IntentTarget;
  /** Name of the file */
  file: string;
};

/** Address of the page */
export interface UrlMatchesCondition {
  kind: "url_matches";
  /**
   * Regular expression in the syntax of Rust's regex crate. It may match anywhere in the first 32,768 characters of the
   * address. The compiled expression may use at most 1 MiB
   */
  pattern: string;
}

/** Address that matches a regular expression */
export interface UrlMatchesRecipeCondition {
  kind: "url_matches";
  pattern: string;
}

/** Usage of an account by a property of its sessions */
export interface UsageBreakdown {
  by: UsageDimension;
  /** At most 1,000 entries, those with the most session minutes first */
  data: UsagePart[];
  /** First day */
  from_date: string;
  /** Last day: yesterday */
  to_date: string;
}

/** Usage on a UTC day */
export interface UsageBucket {
  /** Date of the day */
  date: string;
  totals: DayTotals;
}

export type UsageDimension = "api_key" | "archetype" | "label";

/** Usage of the sessions with one value of the property */
export interface UsagePart {
  /** API key ID, archetype ID or label; null for sessions without one */
  key: string | null;
  /** Name for people; null if there is none */
  label: string | null;
  totals: DayTotals;
}

/** Usage of an account by day */
export interface UsageSeries {
  /** Days, oldest first */
  buckets: UsageBucket[];
  /** First day of the period */
  from_date: string;
  /** Last day: yesterday */
  to_date: string;
}

/** Usage of an account in the current month */
export interface UsageSummary {
  /** Start of the next UTC month */
  period_end: string;
  /** Start of the UTC month */
  period_start: string;
  quotas: Quotas;
  tier: AccountTier;
  totals: MonthTotals;
}

/** Body of `wait` */
export interface Wait {
  condition: Condition;
  on_timeout?: OnTimeout;
  /** Timeout in milliseconds. If absent, a `time` condition has a timeout of its `ms` plus 5,000 */
  timeout_ms?: number;
}

/** Exception of a script that is waited for */
export interface WaitException {
  /** Message of the error, or the thrown value as text, limited to its first 1,000 characters */
  message: string;
  /** Name of the error, limited to its first 100 characters; `Error` for a thrown value that has no name */
  name: string;
}

export type WaitIntent = IntentStep & {
  kind: "wait";
  condition: IntentCondition;
};

/** Wait for a condition */
export interface WaitRecipeStep {
  condition: RecipeCondition;
  kind: "wait";
}

export type WaitUntil = "load" | "domcontentloaded" | "networkidle";

/** Outcome of a wait */
export interface Waited {
  /** Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise */
  dialog?: OpenDialog;
  /** Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none */
  dialogs?: AnsweredDialog[];
  /** Download that was waited for */
  download?: DownloadRef;
  duration_ms: number;
  /** Exception of the last run of the script, if the wait timed out and that run threw one */
  exception?: WaitException;
  /** Kind of the condition */
  kind: string;
  /** False only if the wait timed out with `on_timeout: return`, or if a dialog ended it */
  matched: boolean;
  /** Response that was waited for */
  response?: PageResponse;
  /** Address of the page after the wait */
  url: string;
}

/** Step that waits for an approval */
export interface WaitingApproval {
  /** Agent session of the step; a message with the step's ID in `approvals` approves it */
  agent_session_id: string;
  /** Time the approval was requested */
  requested_at: string;
  /** Driver session of the agent session */
  session_id: string;
  step: AgentIntent;
}

/** A page of steps that wait for an approval, newest first */
export interface WaitingApprovalList {
  data: WaitingApproval[];
  /** True when there is another page */
  has_more: boolean;
  /** Cursor of the next page; null on the last page */
  next_cursor: string | null;
}

/** An app that waits for authorization */
export interface WaitingDevice {
  /** Name of the app */
  client_label: string | null;
  /** Time of the app's request (RFC 3339) */
  created_at: string;
  /** Time the code expires (RFC 3339) */
  expires_at: string;
  /** IP address of the app's request */
  ip_address: string | null;
  /** Nonce of the app; send it back unchanged */
  state: string;
}

/** A new or refreshed web session */
export interface WebSession {
  /** Account that signed in */
  account_id: string;
  /** Time the token expires (RFC 3339) */
  expires_at: string;
  /** Bearer token, returned only once */
  token: string;
}

/** An attempt to send a delivery */
export interface WebhookAttempt {
  /** Time the attempt ended (RFC 3339) */
  at: string;
  /** Duration in milliseconds */
  duration_ms: number;
  /** Reason the attempt got no response */
  error: string | null;
  /** Beginning of the body of the response */
  excerpt: string | null;
  /** HTTP status of the response */
  status: number | null;
}

/** A delivery of an event to a webhook endpoint */
export interface WebhookDelivery {
  /** Number of completed attempts */
  attempts: number;
  /** Time the delivery was created (RFC 3339) */
  created_at: string;
  /** Time the delivery succeeded (RFC 3339) */
  delivered_at: string | null;
  /** Duration of the last attempt in milliseconds */
  duration_ms: number | null;
  /** Target endpoint */
  endpoint_id: string;
  /** Event ID */
  event_id: string;
  event_type: EventType;
  /** Delivery ID */
  id: string;
  /** Reason the last attempt got no response */
  last_error: string | null;
  /** Beginning of the body of the endpoint's last response */
  last_response_excerpt: string | null;
  /** HTTP status of the endpoint's last response */
  last_response_status: number | null;
  /** Time the next attempt is due (RFC 3339) */
  next_attempt_at: string | null;
  status: WebhookDeliveryStatus;
  /** Time of the last change (RFC 3339) */
  updated_at: string;
}

/** A delivery with its content and its attempts */
export type WebhookDeliveryDetail = WebhookDelivery & {
  /** Last ten attempts, oldest first */
  attempts_log: WebhookAttempt[];
  headers: WebhookDeliveryDetailHeaders;
  payload: WebhookDeliveryDetailPayload;
};

/** Headers of the last attempt, by name; empty before it. The values of a signature are masked while receivers accept it */
export type WebhookDeliveryDetailHeaders = Record<string, string>;

/** Body of the requests */
export type WebhookDeliveryDetailPayload = Record<string, unknown>;

export type WebhookDeliveryStatus = "pending" | "in_flight" | "delivered" | "failed" | "dlq";

/** A webhook endpoint */
export interface WebhookEndpoint {
  /** True when events are delivered; false while the endpoint is paused and after it was disabled */
  active: boolean;
  /** Number of consecutive deliveries that ended in the dead-letter state */
  consecutive_failures: number;
  /** Time the endpoint was created (RFC 3339) */
  created_at: string;
  /** Number of ended deliveries by result */
  delivery_counts: DeliveryCounts;
  /** Description by the account owner */
  description: string | null;
  /** Time the endpoint was disabled permanently (RFC 3339) */
  disabled_at: string | null;
  events: SubscribableEventType[];
  /** Webhook endpoint ID */
  id: string;
  /** Time of the last failed attempt (RFC 3339) */
  last_failure_at: string | null;
  /** Time of the last successful delivery (RFC 3339) */
  last_success_at: string | null;
  /** First characters of the previous secret, while it still signs deliveries */
  prev_secret_prefix: string | null;
  /** Time the previous secret stops signing (RFC 3339) */
  rotation_grace_expires_at: string | null;
  /** First characters of the signing secret */
  secret_prefix: string;
  /** URL that deliveries are sent to */
  url: string;
}

/** Event sent to a webhook endpoint. Clients must ignore unknown types */
export type WebhookEvent = SessionCompletedEvent | SessionFailedEvent | ApiKeyRevokedEvent | SessionEgressCapabilityChangedEvent | CryptoOrderPaidEvent | CryptoOrderFailedEvent | SessionChallengeDetectedEvent | SessionProfileSaveFailedEvent | TestPingEvent;

/** Webhook endpoints, newest first */
export interface WebhookList {
  data: WebhookEndpoint[];
}

