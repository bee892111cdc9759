// A service that answers as a test says, also wrongly.

import { createServer } from "node:http";

/** Answers are functions of the request and the response, in the order of the requests; the last one repeats. */
export async function fake(...answers) {
  const received = [];
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    received.push({ method: request.method, path: request.url, headers: request.headers, body: Buffer.concat(parts).toString() });
    const answer = server.answers.length === 1 ? server.answers[0] : server.answers.shift();
    answer(request, response);
  });
  server.answers = answers;
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    received,
    url: `http://127.0.0.1:${server.address().port}`,
    port: server.address().port,
    set answers(next) {
      server.answers = next;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Runs `test` with a fake service, which is closed afterwards. */
export async function withFake(answers, test) {
  const service = await fake(...answers);
  try {
    await test(service);
  } finally {
    await service[Symbol.asyncDispose]();
  }
}

export const answer = (status = 200, body, headers = {}, type = "application/json") => (request, response) => {
  response.writeHead(status, { "x-request-id": "req-1", ...(status !== 204 && { "content-type": type }), ...headers });
  if (body === undefined || status === 204) response.end();
  else response.end(Buffer.isBuffer(body) || typeof body === "string" ? body : JSON.stringify(body));
};

export const problem = (status, code, headers = {}, members = {}) =>
  answer(status, { type: `http://x/errors/${code}`, title: code, status, detail: "Grüezi", instance: "/", request_id: "req-9", ...members }, headers, "application/problem+json");

/** Ends the connection in the middle of the body. */
export const cut = (sent = '{"data": [') => (request, response) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": "10000000" });
  response.write(sent, () => setTimeout(() => request.socket.destroy(), 20));
};

export const hangUp = (request) => request.socket.destroy();

export const events = (...parts) => (request, response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const part of parts) response.write(part);
  response.end();
};

export const SESSION = { id: "ses_1", status: "ready", label: "Zürich", dialog: null };
