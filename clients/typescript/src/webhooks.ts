import { WebhookVerificationError } from "./errors.js";
import type { WebhookEvent } from "./generated/types.js";

export interface VerifyOptions {
  /** Seconds by which the time of a delivery may differ from the clock; 300 by default. */
  tolerance?: number;
  /** Seconds since 1970; for tests. */
  now?: number;
}

/**
 * Returns the event of a delivery, or throws `WebhookVerificationError` unless `signature`, the header `X-Service-Signature`,
 * signs `body` with `secret`. `body` must be the bytes as they arrived: JSON that was parsed and written again has other bytes.
 */
export async function verifyWebhook(body: Uint8Array | string, signature: string | null | undefined, secret: string, options: VerifyOptions = {}): Promise<WebhookEvent> {
  const { tolerance = 300, now = Date.now() / 1000 } = options;
  // Anyone can sign with an empty secret.
  if (!secret) throw new TypeError("The signing secret is empty");
  const encoder = new TextEncoder();
  const parts = (signature ?? "").split(",").map((part) => part.trim());
  const named = (name: string) => parts.filter((part) => part.startsWith(name)).map((part) => part.slice(name.length));
  const [time, ...moreTimes] = named("t=");
  const signatures = named("v1=");
  if (time === undefined || moreTimes.length > 0 || !/^[0-9]{1,12}$/.test(time) || signatures.length === 0) {
    throw new WebhookVerificationError("malformed", "The signature header needs one t= and at least one v1=");
  }
  // Not `>`, so that a time or a tolerance that is not a number refuses.
  if (!(Math.abs(now - Number(time)) <= tolerance)) {
    throw new WebhookVerificationError("time", "The delivery is too old, or one of the clocks is wrong");
  }
  const bytes = typeof body === "string" ? encoder.encode(body) : body;
  const start = encoder.encode(`${time}.`);
  const signed = new Uint8Array(start.length + bytes.length);
  signed.set(start);
  signed.set(bytes, start.length);
  const key = await crypto.subtle.importKey("raw", encoder.encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  // There are two signatures while a secret is rotated. `verify` compares in constant time.
  let matches = false;
  for (const candidate of signatures) {
    if (!/^[0-9a-f]{64}$/.test(candidate)) continue;
    const given = Uint8Array.from(candidate.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
    matches = (await crypto.subtle.verify("HMAC", key, given, signed)) || matches;
  }
  if (!matches) throw new WebhookVerificationError("signature", "No signature is by this secret, of this body");
  return JSON.parse(new TextDecoder().decode(bytes)) as WebhookEvent;
}
