// That the SDK covers the contract: every operation for customers, every problem.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import * as kitfleet from "../dist/index.js";
import { PROBLEMS } from "../dist/generated/problems.js";
import { answer, problem, withFake } from "./fake.js";

const file = (path) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
const contract = JSON.parse(file("openapi.json"));
// Operations for the provider of the service, and for the programs of payment providers.
const notForCustomers = new Set(["takeCardEvent", "takeCryptoNotice", "registerMacNode"]);

const operations = Object.entries(contract.paths).flatMap(([path, item]) =>
  Object.entries(item)
    .filter(([method, operation]) => method !== "parameters" && !path.startsWith("/v1/admin/") && !notForCustomers.has(operation.operationId))
    .map(([method, operation]) => ({ ...operation, path, method: method.toUpperCase(), matches: new RegExp(`^${path.replaceAll(".", "\\.").replace(/\{[^}]+\}/g, "[^/]+")}$`) })),
);
const operationOf = ({ method, path }) => operations.find((operation) => operation.method === method && operation.matches.test(path.split("?")[0])) ?? assert.fail(`no operation of the contract is ${method} ${path}`);
const hasCursor = (operation) => (operation.parameters ?? []).some((parameter) => parameter.name === "cursor" || parameter.$ref?.endsWith("/Cursor"));

/** Every method of the objects that the resources return, with its arguments before the options. */
async function* handles(client) {
  const session = await client.sessions.get("ses_1");
  const agent = await client.agentSessions.get("agt_1");
  const own = {
    "Locator.drag": [[{ x: 0, y: 0 }]],
    "Locator.upload": [{ name: "a.txt", content: Uint8Array.of(1) }],
    "Session.content": ["/har"],
    "Session.upload": [{ name: "a.txt", content: Uint8Array.of(1) }],
    "Session.setCookies": [[]],
    "AgentSession.upload": [{ name: "a.txt", content: Uint8Array.of(1) }],
    "Turn.approve": ["approved"],
  };
  // These take the options of the request together with those of the operation.
  const withOptions = ["tap", "hover", "clear", "check", "uncheck", "back", "forward", "reload", "screenshot", "pdf", "capture", "waitFor", "waitForPage", "waitForDownload"];
  const objects = [session, session.locator("#a"), agent, new kitfleet.Turn(agent, { intents: [] }), new kitfleet.PageHandle(session, { id: "page_1" }), new kitfleet.DownloadHandle(session, { id: "dl_1" })];
  for (const object of objects) {
    const prototype = Object.getPrototypeOf(object);
    for (const name of Object.getOwnPropertyNames(prototype)) {
      const { value } = Object.getOwnPropertyDescriptor(prototype, name);
      const full = `${object.constructor.name}.${name}`;
      if (typeof value !== "function" || ["constructor", "toJSON", "locator"].includes(name) || name.startsWith("getBy") || full === "Session.request") continue;
      // The source has the parameters that TypeScript does not count: those with a default.
      const parameters = /^(?:async )?\w+\(([^)]*)\)/.exec(value.toString())[1].split(",").filter((parameter) => parameter.trim() && !/\boptions\b/.test(parameter));
      yield { name: full, call: (options) => object[name](...(own[full] ?? (withOptions.includes(name) ? [] : parameters.map((parameter) => (/args|fields|query = /.test(parameter) ? undefined : /condition|action|extractions|changes/.test(parameter) ? {} : "arg")))), options) };
    }
  }
}

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
  const missing = operations.filter(({ method, path }) => !reached.has(`${method} ${path.replace(/\{[^}]+\}/g, "{}")}`));
  assert.deepEqual(missing.map(({ operationId }) => operationId), []);
});

test("every slug of a problem is a class", () => {
  const rows = [...file("docs/contract/errors.md").matchAll(/^ *\| [\d, ]+ \| (.+?) \| .+ \|$/gm)].map((row) => row[1]);
  const slugs = rows.flatMap((row) => [...row.matchAll(/`([a-z-]+)`/g)].map((found) => found[1]));
  assert.ok(slugs.length > 15);
  for (const slug of slugs) assert.ok(PROBLEMS[slug]?.prototype instanceof kitfleet.ProblemError, slug);
  for (const Problem of Object.values(PROBLEMS)) assert.equal(kitfleet[Problem.name], Problem);
});

/** Every method of the resources, with arguments of which the last are the options. */
function* resources(client) {
  for (const resource of Object.values(client)) {
    for (const [owner, name] of methods(resource)) {
      const parameters = /^\w+\(([^)]*)\)/.exec(owner[name].toString())[1].split(",").filter((parameter) => parameter.trim());
      const given = parameters.filter((parameter) => !/options/.test(parameter)).map((parameter) => (/body|query/.test(parameter) ? {} : "ARG"));
      yield { name: `${owner.constructor.name}.${name}`, call: (options) => owner[name](...given, options) };
    }
  }
}

test("only operations that may be repeated are repeated", async () => {
  const { random } = Math;
  Math.random = () => 0;
  const seen = new Set();
  try {
    await withFake([answer(200, { id: "x_1", session_id: "ses_1" })], async (service) => {
      const client = new kitfleet.Kitfleet({ url: service.url });
      const found = [...resources(client)];
      for await (const entry of handles(client)) found.push(entry);
      assert.ok(found.length > 200);
      service.answers = [problem(503, "feature-unavailable", { "retry-after": "0" })];
      for (const { name, call } of found) {
        service.received.length = 0;
        const result = call({ maxRetries: 1 });
        // The address of a WebSocket.
        if (typeof result === "string") continue;
        if (result instanceof kitfleet.EventStream) {
          await assert.rejects(async () => {
            for await (const _ of result);
          }, kitfleet.FeatureUnavailableError);
        } else {
          await assert.rejects(async () => await result, kitfleet.FeatureUnavailableError, name);
        }
        const operation = operationOf(service.received[0]);
        assert.equal(service.received.length, operation["x-retryable"] ? 2 : 1, `${name}: ${operation.operationId}`);
        seen.add(operation.operationId);
      }
    });
  } finally {
    Math.random = random;
  }
  assert.deepEqual(operations.map(({ operationId }) => operationId).filter((id) => !seen.has(id)), ["watchSession"]);
});

test("every list with a cursor is paged", async () => {
  const paged = new Set();
  await withFake([answer(200, { id: "x_1", session_id: "ses_1" })], async (service) => {
    const client = new kitfleet.Kitfleet({ url: service.url });
    const found = [...resources(client)];
    for await (const entry of handles(client)) found.push(entry);
    for (const { name, call } of found) {
      service.received.length = 0;
      service.answers = [answer(200, { data: [{}], has_more: true, next_cursor: "c2" }), answer(200, { data: [{}], has_more: false, next_cursor: null })];
      const result = call({ maxRetries: 0 });
      if (!(result instanceof kitfleet.Pager)) {
        await Promise.resolve(result instanceof kitfleet.EventStream ? undefined : result).catch(() => undefined);
        continue;
      }
      const first = await result;
      const operation = operationOf(service.received[0]);
      if (!hasCursor(operation)) continue;
      let entries = 0;
      for await (const _ of first) entries += 1;
      assert.equal(entries, 2, name);
      assert.match(service.received[1].path, /cursor=c2/, name);
      paged.add(operation.operationId);
    }
  });
  const expected = operations.filter(hasCursor).map(({ operationId }) => operationId);
  assert.ok(expected.length > 15);
  assert.deepEqual(expected.filter((id) => !paged.has(id)), []);
});

test("operations without a method are those for others", () => {
  const unnamed = Object.entries(contract.paths).flatMap(([path, item]) => (path.startsWith("/v1/admin/") ? [] : Object.values(item).filter((operation) => !operation["x-sdk"])));
  assert.deepEqual(new Set(unnamed.map(({ operationId }) => operationId)), notForCustomers);
});

test("every method has a description", () => {
  const missing = [];
  for (const name of ["index", "handles", "content", "pager", "generated/resources"]) {
    const lines = file(`clients/typescript/dist/${name}.d.ts`).split("\n");
    lines.forEach((line, index) => {
      const method = /^    (?!constructor|then)(\w+)(?:<.*>)?\(/.exec(line)?.[1];
      if (method && !lines[index - 1].trimEnd().endsWith("*/")) missing.push(`${name}: ${method}`);
    });
  }
  assert.deepEqual(missing, []);
});
