// The client against a service that answers.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { openAsBlob } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import * as kitfleet from "../dist/index.js";
import { answer, SESSION, withFake } from "./fake.js";

const { Kitfleet } = kitfleet;
const OK = answer(200, { ok: true, kind: "tap", duration_ms: 1, url: "http://x/" });

test("session is closed at the end of its block", async () => {
  await withFake([answer(201, SESSION), OK, answer(204)], async (service) => {
    const client = new Kitfleet({ url: service.url, apiKey: "svc_x", account: "acc_1" });
    const session = await client.sessions.create({ label: "Zürich" });
    assert.ok(session instanceof kitfleet.Session);
    assert.equal(session.label, "Zürich");
    await session.getByRole("button", { name: "Senden – jetzt", exact: true }).tap({ count: 2, timeout_ms: 500 });
    await session[Symbol.asyncDispose]();
    const [created, tapped, closed] = service.received;
    assert.deepEqual([created.method, created.path, created.body], ["POST", "/v1/sessions", '{"label":"Zürich"}']);
    assert.equal(created.headers["x-service-account"], "acc_1");
    assert.equal(created.headers.authorization, "Bearer svc_x");
    assert.deepEqual(JSON.parse(tapped.body), { action: { kind: "tap", target: { role: "button", name: "Senden – jetzt", exact: true }, count: 2 }, timeout_ms: 500 });
    assert.deepEqual([closed.method, closed.path], ["DELETE", "/v1/sessions/ses_1"]);
  });
});

test("every locator names its element", async () => {
  await withFake([answer(200, SESSION), OK], async (service) => {
    const session = await new Kitfleet({ url: service.url }).sessions.get("ses_1");
    const sent = async (promise) => {
      await promise;
      return JSON.parse(service.received.at(-1).body).action;
    };
    for (const [locator, element] of [
      [session.locator("#a >>> #b"), { selector: "#a >>> #b" }],
      [session.getByText("Tschüss"), { target: { text: "Tschüss" } }],
      [session.getByLabel("Name", { exact: true }), { target: { label: "Name", exact: true } }],
      [session.getByPlaceholder("Größe"), { target: { placeholder: "Größe" } }],
      [session.getByTestId('a"b\\c'), { selector: '[data-testid="a\\"b\\\\c"]' }],
      [session.getByRef("e12"), { target: { ref: "e12" } }],
    ]) {
      assert.deepEqual(await sent(locator.hover()), { kind: "hover", ...element });
    }
    const one = session.locator("#a");
    const to = session.locator("#to");
    for (const [promise, action] of [
      [() => one.type("ß", { sensitive: true }), { kind: "type", text: "ß", sensitive: true }],
      [() => one.fill("ü"), { kind: "fill", value: "ü" }],
      [() => one.clear(), { kind: "clear" }],
      [() => one.check(), { kind: "check", checked: true }],
      [() => one.uncheck(), { kind: "check", checked: false }],
      [() => one.select("Größe"), { kind: "select", option: "Größe" }],
      [() => one.select(["a", "b"]), { kind: "select", options: ["a", "b"] }],
      [() => one.drag(to, { at: { x: 1, y: 2 } }), { kind: "drag", to: { selector: "#to", at: { x: 1, y: 2 } } }],
      [() => one.drag([{ x: 0, y: 0 }, { x: 5, y: 5 }]), { kind: "drag", path: [{ x: 0, y: 0 }, { x: 5, y: 5 }] }],
      [() => one.swipe("left", { distance: 20 }), { kind: "swipe", direction: "left", distance: 20 }],
      [() => one.upload({ name: "bild.png", content: Uint8Array.of(0, 255), content_type: "image/png" }), { kind: "upload", files: [{ name: "bild.png", content: "AP8=", content_type: "image/png" }] }],
      [() => one.upload(new File([Uint8Array.of(0, 255)], "bild.png", { type: "image/png" })), { kind: "upload", files: [{ name: "bild.png", content: "AP8=", content_type: "image/png" }] }],
    ]) {
      assert.deepEqual(await sent(promise()), { selector: "#a", ...action });
    }
    const folder = await mkdtemp(join(tmpdir(), "kitfleet-"));
    await writeFile(join(folder, "größe.txt"), "abc");
    assert.deepEqual((await sent(session.upload(join(folder, "größe.txt")))).files, [{ name: "größe.txt", content: "YWJj" }]);
    await one.waitFor({ state: "hidden", timeout_ms: 100, on_timeout: "return" });
    assert.deepEqual(JSON.parse(service.received.at(-1).body), { condition: { kind: "selector_hidden", selector: "#a" }, timeout_ms: 100, on_timeout: "return" });
  });
});

test("list yields the entries of all pages", async () => {
  const entry = (number) => ({ ...SESSION, id: `ses_${number}` });
  const pages = () => [
    answer(200, { data: [entry(1), entry(2)], has_more: true, next_cursor: "c/1+ü" }),
    answer(200, { data: [], has_more: true, next_cursor: "c2" }),
    answer(200, { data: [entry(3)], has_more: false, next_cursor: null }),
  ];
  await withFake(pages(), async (service) => {
    const client = new Kitfleet({ url: service.url });
    const ids = [];
    for await (const session of client.sessions.list({ limit: 2, status: "ready" })) ids.push(session.id);
    assert.deepEqual(ids, ["ses_1", "ses_2", "ses_3"]);
    assert.equal(service.received[1].path, "/v1/sessions?limit=2&status=ready&cursor=c%2F1%2B%C3%BC");
    service.answers = pages();
    const page = await client.sessions.list();
    assert.equal(page.hasMore, true);
    assert.ok(page.data[0] instanceof kitfleet.Session);
    service.answers = pages();
    assert.equal((await client.sessions.list().all(2)).length, 2);
    service.answers = [answer(200, { data: [1], next_cursor: null })];
    assert.deepEqual(await client.auditLog.list().all(), [1]);
  });
});

test("agent turn is approved", async () => {
  const step = { id: "step_1", kind: "tap", status: "needs_approval", result: null };
  const turn = { turn_id: "turn_1", kind: "plan", reply: "…", intents: [step], tokens_used: 0 };
  const done = { ...turn, intents: [{ ...step, status: "done", result: { ok: true } }] };
  await withFake([answer(201, { id: "agt_1", session_id: "ses_1" }), answer(200, turn), answer(200, done), answer(204)], async (service) => {
    const agent = await new Kitfleet({ url: service.url }).agentSessions.create();
    const waiting = await agent.send("tippe «Senden»", {}, { idempotencyKey: "k1" });
    assert.deepEqual(waiting.waiting.map((intent) => intent.id), ["step_1"]);
    assert.deepEqual((await waiting.approve()).results, [{ ok: true }]);
    await agent.close();
    assert.equal(service.received[1].headers["idempotency-key"], "k1");
    assert.deepEqual(JSON.parse(service.received[2].body), { message: "approved", approvals: ["step_1"] });
  });
});

test("capture and evaluate", async () => {
  const picture = { kind: "screenshot", encoding: "base64", content: Buffer.from([0x89, 0x50]).toString("base64"), content_type: "image/png", bytes: 2 };
  const thrown = { value: null, exception: { name: "TypeError", message: "ü is not a function", line: 3 } };
  await withFake([answer(200, SESSION), answer(200, picture), answer(200, { value: ["ü"], exception: null }), answer(200, thrown)], async (service) => {
    const session = await new Kitfleet({ url: service.url }).sessions.get("ses_1");
    const path = join(await mkdtemp(join(tmpdir(), "kitfleet-")), "bild.png");
    assert.deepEqual(await session.screenshot({ full_page: true, path }), Uint8Array.of(0x89, 0x50));
    assert.deepEqual(JSON.parse(service.received[1].body), { kind: "screenshot", full_page: true });
    assert.equal((await readFile(path)).length, 2);
    assert.deepEqual(await session.evaluate("return args", ["ü"]), ["ü"]);
    await assert.rejects(session.evaluate("ü()"), (error) => error instanceof kitfleet.ScriptError && error.exception.line === 3);
  });
});

test("profile is exported to a file and imported from it", async () => {
  const document = JSON.stringify({ name: "Käufer" }).repeat(50_000);
  const exported = answer(200, document, { "content-disposition": "attachment; filename=\"x.json\"; filename*=UTF-8''K%C3%A4ufer.json" }, "application/vnd.kitfleet.profile+json");
  await withFake([exported, answer(201, { id: "prof_1" })], async (service) => {
    const client = new Kitfleet({ url: service.url });
    const content = await client.profiles.exportArchive("prof_0");
    assert.equal(content.fileName, "Käufer.json");
    const path = join(await mkdtemp(join(tmpdir(), "kitfleet-")), "profil.json");
    await content.save(path);
    for (const body of [await openAsBlob(path), await readFile(path), (await openAsBlob(path)).stream()]) {
      assert.equal((await client.profiles.importArchive(body)).id, "prof_1");
      assert.equal(service.received.at(-1).body, document);
      assert.equal(service.received.at(-1).headers["content-type"], "application/vnd.kitfleet.profile+json");
    }
  });
});

test("trace and timeline use the paths of the session", async () => {
  await withFake([answer(200, SESSION), answer(200, "PK", {}, "application/zip"), answer(200, { data: [{ seq: 1 }], has_more: false, next_cursor: null })], async (service) => {
    const session = await new Kitfleet({ url: service.url }).sessions.get("ses_1");
    await session.trace(join(await mkdtemp(join(tmpdir(), "kitfleet-")), "trace.zip"), { format: 8 });
    assert.deepEqual(await session.timeline().all(), [{ seq: 1 }]);
    assert.deepEqual(service.received.slice(1).map((request) => request.path), ["/v1/sessions/ses_1/trace?format=8", "/v1/sessions/ses_1/timeline"]);
  });
});

test("raw answer and onResponse", async () => {
  const seen = [];
  await withFake([answer(200, { ü: 1 })], async (service) => {
    const client = new Kitfleet({ url: `${service.url}/prefix/` });
    const raw = await client.request("GET", "/v1/status", { query: { a: "ü" } }, { headers: { "x-test": "1" }, onResponse: (response) => seen.push(response) });
    assert.deepEqual(await raw.json(), { ü: 1 });
    assert.deepEqual([seen[0].status, seen[0].headers.get("x-request-id")], [200, "req-1"]);
    assert.deepEqual([service.received[0].path, service.received[0].headers["x-test"]], ["/prefix/v1/status?a=%C3%BC", "1"]);
  });
});

test("path arguments are quoted", async () => {
  await withFake([answer(200, SESSION)], async (service) => {
    await new Kitfleet({ url: service.url }).sessions.get("../a b?ü");
    assert.equal(service.received[0].path, "/v1/sessions/..%2Fa%20b%3F%C3%BC");
  });
});

test("environment names address and key", async () => {
  await withFake([answer(200, SESSION)], async (service) => {
    Object.assign(process.env, { KITFLEET_URL: service.url, KITFLEET_API_KEY: "svc_test" });
    try {
      await new Kitfleet().sessions.get("ses_1");
    } finally {
      delete process.env.KITFLEET_URL;
      delete process.env.KITFLEET_API_KEY;
    }
    assert.equal(service.received[0].headers.authorization, "Bearer svc_test");
  });
  for (const apiKey of ["svc test", "svc\n", "svc_ü"]) assert.throws(() => new Kitfleet({ apiKey }), TypeError);
  for (const url of ["kitfleet.example", "ftp://x"]) assert.throws(() => new Kitfleet({ url }), TypeError);
});

test("form, location, address and texts", async () => {
  await withFake([answer(200, { access_token: "t" })], async (service) => {
    const client = new Kitfleet({ url: service.url });
    await client.oauth.createToken({ grant_type: "client_credentials", client_secret: "ä&b" });
    assert.equal(service.received[0].body, "grant_type=client_credentials&client_secret=%C3%A4%26b");
    assert.equal(service.received[0].headers["content-type"], "application/x-www-form-urlencoded;charset=UTF-8");
    service.answers = [answer(303, undefined, { location: "https://idp.example/authorize?x=1" })];
    assert.equal(await client.auth.startOauthSignIn("google"), "https://idp.example/authorize?x=1");
    assert.equal(client.sessions.live("ses_1"), `${service.url.replace("http", "ws")}/v1/sessions/ses_1/live`);
    service.answers = [answer(200, "print('ü')", {}, "text/x-python")];
    assert.equal(await client.recipes.getText("rec_1", { format: "python" }), "print('ü')");
  });
});

const BODY = Buffer.from('{"id":"evt","type":"test.ping","created_at":"2026-11-20T18:05:00.123Z","data":{"name":"ü"}}');
const header = (at, ...secrets) => [`t=${at}`, ...secrets.map((secret) => `v1=${createHmac("sha256", secret).update(`${at}.`).update(BODY).digest("hex")}`)].join(",");

test("signed webhook is returned, and forged, old and malformed ones are refused", async () => {
  const now = Math.floor(Date.now() / 1000);
  assert.equal((await kitfleet.verifyWebhook(BODY, header(now, "whsec_a"), "whsec_a")).type, "test.ping");
  await kitfleet.verifyWebhook(BODY.toString(), header(now, "whsec_new", "whsec_a"), "whsec_a");
  const reason = (given, reason, options) => assert.rejects(kitfleet.verifyWebhook(BODY, given, "whsec_a", options), (error) => error instanceof kitfleet.WebhookVerificationError && error.reason === reason);
  await reason(header(now, "whsec_b"), "signature");
  await reason(`t=${now},v1=ü`, "signature");
  await reason(header(now - 301, "whsec_a"), "time", { now });
  await reason(header(now + 301, "whsec_a"), "time", { now });
  await reason(header(now, "whsec_a"), "time", { now: Number.NaN });
  for (const malformed of [null, undefined, "", "t=1", `t=${now},t=${now},v1=00`, "t=-1,v1=00", `v1=00,t=${now}x`]) await reason(malformed, "malformed");
  await assert.rejects(kitfleet.verifyWebhook(BODY, header(now, ""), ""), TypeError);
});
