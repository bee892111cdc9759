import { environment, nodeModule } from "./runtime.js";

const variable = (name: string) => environment(name) ?? environment(name.toUpperCase());

/** The proxy of the environment for an address, or null. */
export function proxyOf(url: URL): URL | null {
  const host = url.hostname.replace(/^\[|\]$/g, "").toLowerCase();
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  for (const entry of (variable("no_proxy") ?? "").split(",")) {
    const name = entry.trim().toLowerCase();
    if (name === "*") return null;
    const [, excluded = "", at] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(name) ?? [];
    const suffix = excluded.replace(/^\*?\./, "");
    if (suffix && (at === undefined || at === port || name === host) && (host === suffix || host === name || host.endsWith(`.${suffix}`))) return null;
  }
  const proxy = variable(url.protocol === "https:" ? "https_proxy" : "http_proxy") ?? variable("all_proxy");
  return proxy ? new URL(proxy.includes("://") ? proxy : `http://${proxy}`) : null;
}

/** `fetch` for Node that uses the proxy of the environment, and that waits for the headers of an answer without a limit. */
export async function nodeFetch(address: string, init: RequestInit): Promise<Response> {
  const url = new URL(address);
  const proxy = proxyOf(url);
  if (proxy && !/^https?:$/.test(proxy.protocol)) throw new TypeError(`proxies of the kind ${proxy.protocol} are not supported`);
  const [http, https, tls, stream] = (await Promise.all(["http", "https", "tls", "stream"].map((name) => nodeModule(`node:${name}`)))) as [
    typeof import("node:http"),
    typeof import("node:https"),
    typeof import("node:tls"),
    typeof import("node:stream"),
  ];
  const headers = { ...(init.headers as Record<string, string>) };
  const message = new Request(address, { ...init, signal: null });
  const type = message.headers.get("content-type");
  if (type) headers["content-type"] ??= type;
  const method = init.method ?? "GET";

  const common = { method, signal: init.signal ?? undefined, agent: false as const };
  let outgoing: import("node:http").ClientRequest;
  if (!proxy) {
    outgoing = (url.protocol === "https:" ? https : http).request(url, { ...common, headers });
    return answerOf(outgoing);
  }
  const { request } = proxy.protocol === "https:" ? https : http;
  const credentials = proxy.username && Buffer.from(`${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`).toString("base64");
  const forProxy: Record<string, string> = credentials ? { "proxy-authorization": `Basic ${credentials}` } : {};
  const to = { ...common, host: proxy.hostname.replace(/^\[|\]$/g, ""), port: proxy.port || (proxy.protocol === "https:" ? 443 : 80) };
  if (url.protocol === "https:") {
    const target = `${url.hostname}:${url.port || 443}`;
    const socket = await new Promise<import("node:net").Socket>((resolve, reject) => {
      request({ ...to, method: "CONNECT", path: target, headers: { host: target, ...forProxy } })
        .once("connect", (answer, socket) => (answer.statusCode === 200 ? resolve(socket) : (socket.destroy(), reject(new Error(`the proxy answered ${answer.statusCode}`)))))
        .once("response", (answer) => (answer.destroy(), reject(new Error(`the proxy answered ${answer.statusCode}`))))
        .once("error", reject)
        .end();
    });
    const name = url.hostname.replace(/^\[|\]$/g, "");
    const servername = /^[\d.]+$|:/.test(name) ? "" : name;
    const secure = tls.connect({ socket, servername, host: name });
    outgoing = https.request(url, { ...common, headers, createConnection: () => secure });
  } else {
    outgoing = request({ ...to, path: url.href, headers: { host: url.host, ...headers, ...forProxy } });
  }
  return answerOf(outgoing);

  function answerOf(sent: import("node:http").ClientRequest): Promise<Response> {
    return new Promise((resolve, reject) => {
      sent.once("error", reject);
      sent.once("response", (answer) => {
        const status = answer.statusCode ?? 0;
        const received = new Headers();
        for (let index = 0; index < answer.rawHeaders.length; index += 2) received.append(answer.rawHeaders[index]!, answer.rawHeaders[index + 1]!);
        const empty = status === 204 || status === 205 || status === 304 || method === "HEAD";
        if (empty) answer.resume();
        resolve(new Response(empty ? null : (stream.Readable.toWeb(answer) as ReadableStream<Uint8Array>), { status, headers: received }));
      });
      if (message.body) stream.Readable.fromWeb(message.body as import("node:stream/web").ReadableStream).once("error", reject).pipe(sent);
      else sent.end();
    });
  }
}
