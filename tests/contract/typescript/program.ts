// What a customer writes, with the types that openapi-typescript makes of the contract. It is translated and not run: a name
// that the contract does not have is an error.

import { NotVerified, verify } from "../../../docs/verify/kitfleet_webhook.js";
import type { components, operations } from "./generated/kitfleet.js";

type Schemas = components["schemas"];
type Operation = keyof operations;

/** The body of an operation's request. */
type Asked<Name extends Operation> = operations[Name] extends {
  requestBody?: { content: { "application/json": infer Body } };
}
  ? Body
  : undefined;

/** The body of its answer when it succeeds. */
type Answered<Name extends Operation> = {
  [Status in keyof operations[Name]["responses"] & (200 | 201 | 202)]: operations[Name]["responses"][Status] extends {
    content: { "application/json": infer Body };
  }
    ? Body
    : never;
}[keyof operations[Name]["responses"] & (200 | 201 | 202)];

/** Any of the problems that it answers. */
type Refused<Name extends Operation> = {
  [Status in keyof operations[Name]["responses"]]: operations[Name]["responses"][Status] extends {
    content: { "application/problem+json": infer Problem };
  }
    ? Problem
    : never;
}[keyof operations[Name]["responses"]];

async function post<Name extends Operation>(
  path: string,
  body: Asked<Name>,
  explain: (problem: Refused<Name>) => string,
): Promise<Answered<Name>> {
  const response = await fetch(`http://127.0.0.1:8080${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${process.env["KITFLEET_KEY"]}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer: unknown = await response.json();
  if (!response.ok) throw new Error(explain(answer as Refused<Name>));
  return answer as Answered<Name>;
}

/** What is wrong, as far as a kind of problem says more than all do. */
function explain(problem: Schemas["Problem"] | Schemas["ConcurrencyLimitProblem"]): string {
  if ("current_sessions" in problem) return `${problem.current_sessions} of ${problem.limit} sessions are live`;
  return `${problem.title}: ${problem.detail} (${problem.request_id})`;
}

export async function titleOfShop(): Promise<string> {
  const session = await post<"createSession">("/v1/sessions", { label: "price check" }, (problem) => {
    // The status tells which kinds there are, and what these say.
    if (problem.status === 400 && "errors" in problem) return problem.errors.map(({ field }) => field).join();
    return explain(problem);
  });
  const status: Schemas["SessionStatus"] = session.status;
  if (status !== "ready") throw new Error(status);
  const path = `/v1/sessions/${session.id}`;

  const page = await post<"navigateInSession">(
    `${path}/navigate`,
    { url: "https://shop.example/", wait_until: "domcontentloaded" },
    explain,
  );
  if (page.status !== 200) throw new Error(`${page.final_url} answered ${page.status}`);

  const tap: Schemas["TapAction"] = { kind: "tap", selector: "#accept" };
  const tapped = await post<"interactWithSession">(`${path}/interact`, { action: tap, on_timeout: "return" }, explain);
  if (tapped.ok) {
    const condition: Schemas["SelectorCondition"] = { kind: "selector", selector: "h1" };
    await post<"waitInSession">(`${path}/wait`, { condition, timeout_ms: 5_000 }, explain);
  }

  const extractions: Schemas["Extraction"][] = [{ name: "title", selector: "h1", type: "text" }];
  const { value } = await post<"extractFromSession">(`${path}/extract`, { extractions }, explain);
  const title = value?.["title"];
  return typeof title === "string" ? title : "";
}

/** What an event is about. A receiver ignores the types that it does not handle: there may be new ones. */
export function about(event: Schemas["WebhookEvent"]): string {
  switch (event.type) {
    case "session.completed":
      return `${event.data.session_id} lived ${event.data.duration_ms} ms${event.data.auto_destroyed ? "!" : ""}`;
    case "session.failed":
      return `${event.data.operation} failed: ${event.data.error_name}`;
    case "api_key.revoked":
      return `${event.data.name} is good no more since ${event.data.revoked_at}`;
    case "session.egress_capability_changed":
      return event.data.egress_capabilities.warnings.join();
    case "crypto.order.paid":
      return `${event.data.price_cents} ${event.data.price_currency}`;
    case "crypto.order.failed":
      return event.data.reason satisfies "ipn" | "expired" | "swept";
    case "session.challenge_detected":
      return `${event.data.challenge.type}: ${event.data.challenge.confidence.toFixed(2)}`;
    case "session.profile_save_failed":
      return `${event.data.profile_id} is as it was: ${event.data.reason}`;
    default:
      return event.type;
  }
}

export function receive(secret: string, header: string, body: Uint8Array): number {
  try {
    verify(secret, header, body);
  } catch (error) {
    if (error instanceof NotVerified) return 400;
    throw error;
  }
  const event: Schemas["WebhookEvent"] = JSON.parse(Buffer.from(body).toString());
  console.log(event.id, event.created_at, about(event));
  return 204;
}
