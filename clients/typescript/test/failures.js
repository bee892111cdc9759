// A reporter of Node's tests that prints failures, and the number of tests.

import { inspect } from "node:util";

export default async function* failures(source) {
  let passed = 0;
  let failed = 0;
  for await (const { type, data } of source) {
    // A file is reported as a test of its own.
    if (data.name?.endsWith(".test.js")) continue;
    if (type === "test:pass") passed += 1;
    if (type === "test:stdout" || type === "test:stderr") yield data.message;
    if (type !== "test:fail") continue;
    failed += 1;
    yield `FAILED ${data.name} (${data.file}:${data.line})\n${inspect(data.details.error.cause ?? data.details.error)}\n`;
  }
  yield `${passed} passed, ${failed} failed\n`;
}
