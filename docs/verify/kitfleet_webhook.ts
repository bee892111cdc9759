/** Verifies that a webhook comes from Kitfleet. Needs `node:crypto` only, which Node, Deno and Bun have. */

import { createHmac, timingSafeEqual } from "node:crypto";

/** Seconds by which the time of a delivery may differ from ours. */
export const TOLERANCE = 300;

/** The delivery is not to be believed. */
export class NotVerified extends Error {
  readonly reason: "malformed" | "time" | "signature";

  constructor(reason: NotVerified["reason"], told: string) {
    super(told);
    this.name = "NotVerified";
    this.reason = reason;
  }
}

export interface Options {
  /** In seconds. */
  tolerance?: number;
  /** In seconds since 1970; for tests. */
  now?: number;
}

/**
 * Throws `NotVerified` unless `header`, the value of `X-Service-Signature`, signs `body` with `secret`.
 *
 * `body` is the request's body as it came, before anything has parsed it: JSON that was parsed and written again is other
 * bytes.
 */
export function verify(secret: string, header: string | null | undefined, body: Uint8Array, options: Options = {}): void {
  const { tolerance = TOLERANCE, now = Date.now() / 1000 } = options;
  // Anybody can sign with a secret that is empty.
  if (!secret) throw new TypeError("the signing secret is empty");
  const parts = (header ?? "").split(",");
  const named = (name: string) => parts.filter((part) => part.startsWith(name)).map((part) => part.slice(name.length));
  const [time, ...moreTimes] = named("t=");
  const signatures = named("v1=");
  if (time === undefined || moreTimes.length > 0 || !/^[0-9]{1,12}$/.test(time) || signatures.length === 0) {
    throw new NotVerified("malformed", "the signature header needs one t= and at least one v1=");
  }
  // Not `>`, so that a time or a tolerance that is no number refuses.
  if (!(Math.abs(now - Number(time)) <= tolerance)) {
    throw new NotVerified("time", "the delivery is too old, or one of the clocks is wrong");
  }
  const expected = Buffer.from(createHmac("sha256", secret).update(`${time}.`).update(body).digest("hex"));
  const matches = (signature: string) => {
    const given = Buffer.from(signature);
    return given.length === expected.length && timingSafeEqual(given, expected);
  };
  // There are two while a secret is being rotated.
  if (!signatures.some(matches)) {
    throw new NotVerified("signature", "no signature is by this secret, of this body");
  }
}
