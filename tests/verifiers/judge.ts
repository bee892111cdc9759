// Reads deliveries from standard input, and writes what the verifier says of each: "verified", or why not.

import { readFileSync } from "node:fs";
import { NotVerified, verify } from "../../docs/verify/kitfleet_webhook.js";

interface Delivery {
  secret: string;
  header: string | null;
  body: string;
  now?: number;
}

function judge({ secret, header, body, now }: Delivery): string {
  try {
    verify(secret, header, Buffer.from(body, "base64"), now === undefined ? {} : { now });
    return "verified";
  } catch (error) {
    if (error instanceof NotVerified) return error.reason;
    if (error instanceof TypeError) return "misused";
    throw error;
  }
}

const deliveries: Delivery[] = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(deliveries.map(judge)));
