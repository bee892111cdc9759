// What the client does when the service, or the network, does not answer as it should.

import assert from "node:assert/strict";
import { mkdtemp, readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import * as kitfleet from "../dist/index.js";
import { answer, cut, events, fake, hangUp, problem, SESSION, withFake } from "./fake.js";

const { Kitfleet } = kitfleet;
const get = (client, options) => client.sessions.get("ses_1", options);

test("server away is a connection error", async () => {
  const service = await fake(answer());
  await service[Symbol.asyncDispose]();
  await assert.rejects(get(new Kitfleet({ url: service.url, maxRetries: 1 })), (error) => error instanceof kitfleet.ConnectionFailedError && error.message.includes("ECONNREFUSED"));
});

test("answer of another shape is an unexpected response", async () => {
  const calls = [(client) => client.sessions.create(), get, (client) => client.sessions.list()];
  for (const call of calls) {
    for (const body of ["", "null", "[]", '"text"']) {
      await withFake([answer(200, body)], async (service) => {
        await assert.rejects(async () => await call(new Kitfleet({ url: service.url })), kitfleet.UnexpectedResponseError, body);
      });
    }
  }
  await withFake([answer(200, { items: [] })], async (service) => {
    await assert.rejects(async () => await new Kitfleet({ url: service.url }).sessions.list(), kitfleet.UnexpectedResponseError);
  });
});

test("problem of another service is a problem error", async () => {
  await withFake([answer(400, { code: 5, detail: null, errors: [1, "a", null, { field: null }] })], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url })), (error) => {
      assert.ok(error instanceof kitfleet.ProblemError);
      assert.deepEqual([error.status, error.errors], [400, []]);
      return !error.message.includes("undefined");
    });
  });
});

test("ID that would name another route is an error before the request", async () => {
  await withFake([answer(204)], async (service) => {
    for (const id of ["", ".", ".."]) {
      await assert.rejects(async () => await new Kitfleet({ url: service.url }).profiles.delete(id), TypeError);
    }
    assert.equal(service.received.length, 0);
  });
});

test("slow answer is a deadline error and is not repeated", async () => {
  await withFake([() => undefined], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url }), { timeout: 200 }), kitfleet.DeadlineExceededError);
    assert.equal(service.received.length, 1);
  });
});

test("slow operation is a deadline error and is not repeated", async () => {
  await withFake([() => undefined], async (service) => {
    await assert.rejects(new Kitfleet({ url: service.url }).sessions.interact("ses_1", { action: { kind: "back" } }, { timeout: 200 }), kitfleet.DeadlineExceededError);
    assert.equal(service.received.length, 1);
  });
});

test("header that HTTP cannot carry is an error before the request", async () => {
  await withFake([answer(200, SESSION)], async (service) => {
    for (const options of [{ idempotencyKey: "schlüssel" }, { headers: { "X-Test": "a\nb" } }]) {
      await assert.rejects(get(new Kitfleet({ url: service.url }), options), (error) => error instanceof TypeError && /header/.test(error.message));
    }
    assert.equal(service.received.length, 0);
  });
});

test("thousand sessions at once are opened, used and closed", async () => {
  const SESSIONS = 1000;
  let made = 0;
  const serve = (request, response) => {
    if (request.method === "DELETE") return answer(204)(request, response);
    if (request.url === "/v1/sessions") return answer(201, { ...SESSION, id: `ses_${made++}` })(request, response);
    answer(200, { url: request.url })(request, response);
  };
  await withFake([serve], async (service) => {
    const client = new Kitfleet({ url: service.url });
    const use = async (number) => {
      const session = await client.sessions.create({ label: `Sitzung ${number}` });
      const { url } = await session.navigate("https://example.com/straße");
      await session.close();
      return url;
    };
    const urls = await Promise.all(Array.from({ length: SESSIONS }, (_, number) => use(number)));
    const expected = Array.from({ length: SESSIONS }, (_, number) => `/v1/sessions/ses_${number}/navigate`).sort();
    assert.deepEqual(urls.sort(), expected);
    assert.deepEqual(service.received.map(({ path }) => path).filter((path) => path.endsWith("/navigate")).sort(), expected);
    assert.equal(service.received.filter(({ method }) => method === "POST").length, 2 * SESSIONS);
  });
});

test("trickling body is a deadline error", async () => {
  const trickle = (_, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    const timer = setInterval(() => response.write(" "), 50);
    response.on("close", () => clearInterval(timer));
  };
  await withFake([trickle], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url, timeout: 300 })), kitfleet.DeadlineExceededError);
  });
});

test("repeatable request is repeated after a lost connection", async () => {
  await withFake([hangUp, cut(), answer(200, SESSION)], async (service) => {
    assert.equal((await get(new Kitfleet({ url: service.url }))).label, "Zürich");
    assert.equal(service.received.length, 3);
  });
});

test("operation is never sent twice", async () => {
  for (const first of [hangUp, cut(), problem(503, "capacity-exhausted", { "retry-after": "0" }), problem(429, "rate-limited", { "retry-after": "0" })]) {
    await withFake([first, answer(201, SESSION)], async (service) => {
      await assert.rejects(new Kitfleet({ url: service.url }).sessions.create(), kitfleet.KitfleetError);
      assert.equal(service.received.length, 1);
    });
  }
});

test("Retry-After is obeyed for 429 and 503", async () => {
  for (const first of [problem(429, "rate-limited", { "retry-after": "1" }), problem(503, "feature-unavailable", { "retry-after": "1" })]) {
    await withFake([first, answer(200, SESSION)], async (service) => {
      const started = Date.now();
      assert.equal((await get(new Kitfleet({ url: service.url }))).id, "ses_1");
      assert.ok(Date.now() - started >= 990);
      assert.equal(service.received.length, 2);
    });
  }
});

test("HTML 503 with Retry-After is repeated, too", async () => {
  await withFake([answer(503, "<html>", { "retry-after": "0" }, "text/html"), answer(200, SESSION)], async (service) => {
    assert.equal((await get(new Kitfleet({ url: service.url }))).id, "ses_1");
  });
});

test("without Retry-After 429 and 503 are not repeated", async () => {
  for (const [status, code] of [[429, "concurrency-limit"], [503, "feature-unavailable"]]) {
    await withFake([problem(status, code)], async (service) => {
      await assert.rejects(get(new Kitfleet({ url: service.url })), { code, retryAfter: null });
      assert.equal(service.received.length, 1);
    });
  }
});

test("long Retry-After is not waited for", async () => {
  for (const value of ["3600", new Date(Date.now() + 3_600_000).toUTCString()]) {
    await withFake([problem(429, "rate-limited", { "retry-after": value })], async (service) => {
      await assert.rejects(get(new Kitfleet({ url: service.url })), (error) => error instanceof kitfleet.RateLimitedError && Math.abs(error.retryAfter - 3600) < 5);
      assert.equal(service.received.length, 1);
    });
  }
});

test("problem is the class of its code", async () => {
  const errors = [{ field: "action.text", message: "zu lang: 日本" }];
  await withFake([problem(400, "validation-failed", {}, { errors })], async (service) => {
    await assert.rejects(new Kitfleet({ url: service.url }).sessions.create(), (error) => {
      assert.ok(error instanceof kitfleet.ValidationFailedError);
      assert.equal(error.name, "ValidationFailedError");
      assert.deepEqual([error.status, error.code, error.detail, error.requestId, error.errors], [400, "validation-failed", "Grüezi", "req-9", errors]);
      assert.match(error.message, /日本/);
      return true;
    });
  });
  await withFake([problem(418, "teapot", {}, { size: 3 })], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url })), (error) => error.constructor === kitfleet.ProblemError && error.code === "teapot" && error.body.size === 3);
  });
  await withFake([problem(404, "elsewhere", {}, { code: "not-found" })], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url })), kitfleet.NotFoundError);
  });
  await withFake([problem(404, "constructor")], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url })), kitfleet.ProblemError);
  });
  await withFake([answer(401, { error: "invalid_client", error_description: "no such client" })], async (service) => {
    await assert.rejects(new Kitfleet({ url: service.url }).oauth.createToken({ grant_type: "client_credentials" }), { code: "invalid_client", detail: "no such client" });
  });
});

test("missing key is named", async () => {
  await withFake([problem(401, "unauthorized")], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url })), /401 unauthorized.*\(request req-9\).*KITFLEET_API_KEY/);
    await assert.rejects(get(new Kitfleet({ url: service.url, apiKey: "svc_x" })), (error) => !error.message.includes("KITFLEET_API_KEY"));
  });
});

test("HTML instead of a problem is a clear error", async () => {
  for (const status of [200, 404, 502]) {
    await withFake([answer(status, "<html>Bad gateway – ärgerlich</html>", {}, "text/html")], async (service) => {
      await assert.rejects(new Kitfleet({ url: service.url }).sessions.create(), (error) => {
        assert.ok(error instanceof kitfleet.UnexpectedResponseError);
        assert.deepEqual([error.status, error.requestId], [status, "req-1"]);
        assert.match(error.message, /text\/html/);
        assert.match(error.excerpt, /ärgerlich/);
        return true;
      });
    });
  }
});

test("redirect to another origin is not followed", async () => {
  await withFake([answer(200, SESSION)], async (other) => {
    for (const to of [`http://localhost:${other.port}/v1/sessions/ses_1`, `${other.url}/v1/sessions/ses_1`]) {
      await withFake([answer(302, undefined, { location: to })], async (service) => {
        await assert.rejects(get(new Kitfleet({ url: service.url })), kitfleet.RedirectError);
      });
    }
    assert.deepEqual(other.received, []);
  });
});

test("redirect to the same origin is followed for a GET only", async () => {
  const moved = answer(307, undefined, { location: "/v1/sessions/ses_1" });
  await withFake([moved, answer(200, SESSION)], async (service) => {
    await get(new Kitfleet({ url: service.url, apiKey: "key" }));
    assert.equal(service.received[1].headers.authorization, "Bearer key");
  });
  await withFake([moved, answer(201, SESSION)], async (service) => {
    await assert.rejects(new Kitfleet({ url: service.url }).sessions.create(), kitfleet.RedirectError);
    assert.equal(service.received.length, 1);
  });
  await withFake([moved], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url })), kitfleet.RedirectError);
    assert.ok(service.received.length <= 6);
  });
});

test("aborted request closes the connection", async () => {
  let closed;
  const gone = new Promise((resolve) => (closed = resolve));
  await withFake([(request) => request.socket.on("close", closed)], async (service) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error("genug")), 100);
    await assert.rejects(new Kitfleet({ url: service.url }).sessions.evaluate("ses_1", { script: "return 1" }, { signal: controller.signal }), /genug/);
    await gone;
    assert.equal(service.received.length, 1);
    await assert.rejects(get(new Kitfleet({ url: service.url }), { signal: AbortSignal.abort(new Error("vorher")) }), /vorher/);
    assert.equal(service.received.length, 1);
  });
});

test("abort ends the wait before a repetition", async () => {
  await withFake([problem(503, "feature-unavailable", { "retry-after": "30" })], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url }), { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  });
});

test("download that is cut leaves no file", async () => {
  const folder = await mkdtemp(join(tmpdir(), "kitfleet-"));
  await withFake([cut("x".repeat(100_000))], async (service) => {
    const content = await new Kitfleet({ url: service.url }).sessions.downloads.content("ses_1", "dl_1");
    await assert.rejects(content.save(join(folder, "datei.bin")), kitfleet.ConnectionFailedError);
    assert.deepEqual(await readdir(folder), []);
  });
});

test("download can be aborted and cancelled", async () => {
  let closed;
  const slow = (request, response) => {
    request.socket.on("close", () => closed());
    response.writeHead(200, { "content-type": "application/octet-stream" });
    response.write("x");
  };
  await withFake([slow], async (service) => {
    for (const end of ["signal", "cancel"]) {
      const gone = new Promise((resolve) => (closed = resolve));
      const controller = new AbortController();
      const content = await new Kitfleet({ url: service.url }).sessions.downloads.content("ses_1", "dl_1", { signal: controller.signal });
      setTimeout(() => (end === "signal" ? controller.abort(new Error("genug")) : content.cancel()), 50);
      await assert.rejects(content.read());
      await gone;
    }
  });
});

test("stream resumes after the last event", async () => {
  const bytes = Buffer.from(': comment\n\nid: 7\nevent: session.ready\ndata: {"name": "Zürich"}\n\nid: 8\nevent: x\ndata: {"half"');
  const first = events(bytes.subarray(0, 53), bytes.subarray(53));
  const second = events("retry: 10\r\nid: 8\r\nevent: x\r", '\ndata: {"a":\r\ndata: 1}\r\n\r\n');
  await withFake([first, second, events("id: 9\nevent: end\ndata: {}\n\n")], async (service) => {
    const stream = new Kitfleet({ url: service.url }).notifications.stream();
    const found = [];
    for await (const event of stream) found.push(event);
    assert.deepEqual(found, [
      { id: "7", event: "session.ready", data: { name: "Zürich" } },
      { id: "8", event: "x", data: { a: 1 } },
    ]);
    assert.deepEqual(service.received.map((request) => request.headers["last-event-id"]), [undefined, "7", "8"]);
    assert.equal(stream.lastEventId, "9");
  });
});

test("key revoked during a stream is an error", async () => {
  await withFake([events("id: 1\nevent: x\ndata: {}\n\n"), problem(401, "unauthorized")], async (service) => {
    await assert.rejects(async () => {
      for await (const _ of new Kitfleet({ url: service.url }).notifications.stream());
    }, kitfleet.UnauthorizedError);
    assert.equal(service.received.length, 2);
  });
});

test("leaving the loop of a stream, or aborting it, closes its connection", async () => {
  let closed;
  const open = (request, response) => {
    request.socket.on("close", () => closed());
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("id: 1\nevent: x\ndata: {}\n\n");
  };
  await withFake([open], async (service) => {
    let gone = new Promise((resolve) => (closed = resolve));
    for await (const event of new Kitfleet({ url: service.url }).notifications.stream({ last_event_id: "0" })) {
      assert.equal(event.id, "1");
      break;
    }
    await gone;
    assert.equal(service.received[0].headers["last-event-id"], "0");
    gone = new Promise((resolve) => (closed = resolve));
    await assert.rejects(async () => {
      for await (const _ of new Kitfleet({ url: service.url }).notifications.stream({}, { signal: AbortSignal.timeout(100) }));
    }, { name: "TimeoutError" });
    await gone;
  });
});

test("proxy of the environment is used", async () => {
  const { execFile } = await import("node:child_process");
  const program = `
    import { Kitfleet } from ${JSON.stringify(new URL("../dist/index.js", import.meta.url).href)};
    const client = new Kitfleet({ url: process.argv[1] });
    const session = await client.sessions.create({ label: "Zürich" });
    console.log(session.id);
    await client.sessions.destroy(session.id);`;
  const run = (address, environment) =>
    new Promise((resolve) => execFile(process.execPath, ["--input-type=module", "-e", program, address], { env: { ...process.env, ...environment } }, (error, out, err) => resolve(error ? err : out.trim())));
  await withFake([answer(201, SESSION), answer(204)], async (proxy) => {
    assert.equal(await run("http://kitfleet.invalid", { HTTP_PROXY: proxy.url.replace("//", "//me:p%C3%A4ss@") }), "ses_1");
    assert.deepEqual(proxy.received.map(({ method, path }) => `${method} ${path}`), ["POST http://kitfleet.invalid/v1/sessions", "DELETE http://kitfleet.invalid/v1/sessions/ses_1"]);
    assert.deepEqual(JSON.parse(proxy.received[0].body), { label: "Zürich" });
    assert.equal(proxy.received[0].headers["proxy-authorization"], `Basic ${Buffer.from("me:päss").toString("base64")}`);
    assert.equal(proxy.received[0].headers.host, "kitfleet.invalid");
    proxy.answers = [answer(201, SESSION), answer(204)];
    assert.equal(await run(proxy.url, { HTTP_PROXY: "http://127.0.0.1:1", NO_PROXY: "example.org, 127.0.0.1" }), "ses_1");
    assert.match(await run(proxy.url, { HTTP_PROXY: "http://127.0.0.1:1" }), /ConnectionFailedError/);
  });
  const connects = [];
  const tunnel = createServer();
  tunnel.on("connect", (request, socket) => {
    connects.push(request.url);
    socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  await new Promise((resolve) => tunnel.listen(0, "127.0.0.1", resolve));
  assert.match(await run("https://kitfleet.invalid:8443", { https_proxy: `http://127.0.0.1:${tunnel.address().port}` }), /the proxy answered 403/);
  assert.equal(connects[0], "kitfleet.invalid:8443");
  tunnel.close();
});

test("message to an agent session waits longer than Node's fetch", async () => {
  await withFake([answer(200, { turn_id: "turn_1", intents: [] })], async (service) => {
    const turn = await new Kitfleet({ url: service.url }).agentSessions.sendMessage("agt_1", { message: "grüezi" });
    assert.equal(turn.turn_id, "turn_1");
    // Node's fetch sends its own name; node:http sends the whole body in chunks.
    assert.equal(service.received[0].headers["transfer-encoding"], "chunked");
    assert.deepEqual(JSON.parse(service.received[0].body), { message: "grüezi" });
  });
  await withFake([() => undefined], async (service) => {
    await assert.rejects(get(new Kitfleet({ url: service.url }), { timeout: 400_000, signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  });
});
