// That the SDK covers the contract: every operation for customers, every problem.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import * as kitfleet from "../dist/index.js";
import { PROBLEMS } from "../dist/generated/problems.js";
import { answer, withFake } from "./fake.js";

const file = (path) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
const contract = JSON.parse(file("openapi.json"));
// Operations for the provider of the service, and for the programs of payment providers.
const notForCustomers = new Set(["takeCardEvent", "takeCryptoNotice", "registerMacNode"]);

function* methods(resource) {
  for (const name of Object.getOwnPropertyNames(Object.getPrototypeOf(resource))) if (name !== "constructor") yield [resource, name];
  for (const child of Object.values(resource)) if (child.constructor.name.endsWith("Resource")) yield* methods(child);
}

test("every operation for customers is reached", async () => {
  const reached = new Set();
  await withFake([answer(200, { data: [] })], async (service) => {
    const client = new kitfleet.Kitfleet({ url: service.url, maxRetries: 0 });
    for (const resource of Object.values(client)) {
      for (const [owner, name] of methods(resource)) {
        const result = owner[name]("ARG", "ARG", "ARG", {});
        if (typeof result === "string") {
          reached.add(`GET ${new URL(result).pathname.replaceAll("ARG", "{}")}`);
          continue;
        }
        const before = service.received.length;
        if (result instanceof kitfleet.EventStream) {
          service.answers = [answer(404, { type: "x/not-found" })];
          await assert.rejects(async () => {
            for await (const _ of result);
          }, kitfleet.NotFoundError);
          service.answers = [answer(200, { data: [] })];
        } else {
          await result;
        }
        const request = service.received[before];
        reached.add(`${request.method} ${request.path.split("?")[0].replaceAll("ARG", "{}")}`);
      }
    }
  });
  const missing = Object.entries(contract.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method, operation]) => method !== "parameters" && !path.startsWith("/v1/admin/") && !notForCustomers.has(operation.operationId))
      .filter(([method]) => !reached.has(`${method.toUpperCase()} ${path.replace(/\{[^}]+\}/g, "{}")}`))
      .map(([, operation]) => operation.operationId),
  );
  assert.deepEqual(missing, []);
});

test("every slug of a problem is a class", () => {
  const rows = [...file("docs/contract/errors.md").matchAll(/^ *\| [\d, ]+ \| (.+?) \| .+ \|$/gm)].map((row) => row[1]);
  const slugs = rows.flatMap((row) => [...row.matchAll(/`([a-z-]+)`/g)].map((found) => found[1]));
  assert.ok(slugs.length > 15);
  for (const slug of slugs) assert.ok(PROBLEMS[slug]?.prototype instanceof kitfleet.ProblemError, slug);
  for (const Problem of Object.values(PROBLEMS)) assert.equal(kitfleet[Problem.name], Problem);
});
