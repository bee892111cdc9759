// Parts of the flows outside of the dashboard: people, their mails, pages to visit, and codes of a second factor.

import { createHmac } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { env } from './browser.mjs';

/**
 * DASHBOARD_WORLD is JSON with:
 * - `people`: e-mail addresses of accounts on the plan `enterprise`, each without any data and with the password DASHBOARD_PASSWORD
 * - `free`: the same on the plan `free`
 * - `outbox`: folder below which mails are written as .eml files
 * - `hook`: https address that answers 500 to the first two requests of an event, and 200 to the others
 * - `owner_link`: link that signs in the owner of a new installation, or null
 */
const world = JSON.parse(process.env.DASHBOARD_WORLD ?? '{"people": [], "free": []}');

export const { hook, owner_link: ownerLink } = world;
export const hasBrowsers = process.env.DASHBOARD_BROWSERS === 'webkit';

/** An account that no other flow uses. */
export async function person(tier = 'enterprise') {
  const email = (tier === 'free' ? world.free : world.people).shift();
  if (!email) throw new Error(`no account on the plan ${tier} is left`);
  return signedIn(email);
}

export async function signedIn(email) {
  const { session } = await ask('POST', '/v1/auth/login', { email, password: env.password });
  return { email, session, api: (method, path, body) => ask(method, path, body, session.token) };
}

export async function ask(method, path, body, token) {
  const headers = { ...(body && { 'Content-Type': 'application/json' }), ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(env.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

// --- mails ---

function* filesBelow(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else if (entry.name.endsWith('.eml')) yield path;
  }
}

const unquoted = (part) => part.replace(/=\r?\n/g, '').replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
/** A token can look like quoted-printable text. */
const decoded = (mail) => mail.split(/^--/m).map((part) => (/^Content-Transfer-Encoding: quoted-printable/im.test(part) ? unquoted(part) : part)).join('--');

/** The link in the newest mail to this address that has one with this path. */
export async function mailedLink(email, path) {
  for (let attempt = 0; attempt < 150; attempt += 1) {
    const mails = [...filesBelow(world.outbox)].map((file) => ({ at: statSync(file).mtimeMs, text: decoded(readFileSync(file, 'latin1')) }));
    const links = mails
      .filter(({ text }) => new RegExp(`^To: .*${email.replace(/[.+]/g, '\\$&')}`, 'im').test(text))
      .sort((one, other) => other.at - one.at)
      .flatMap(({ text }) => text.match(new RegExp(`https?://\\S*${path}\\?token=[\\w-]+`)) ?? []);
    if (links[0]) return env.url + new URL(links[0]).pathname + new URL(links[0]).search;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`no mail with ${path} to ${email}`);
}

// --- second factors ---

export function totp(secret, at = Date.now()) {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  const bits = [...secret.replace(/[\s=]/g, '')].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => Number.parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30_000)));
  const digest = createHmac('sha1', key).update(counter).digest();
  const offset = digest[19] & 15;
  return String((digest.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

// --- pages for the browsers of sessions ---

/** Markup, a mark that turns the direction of text, and more characters than any field shows. */
export const HOSTILE = `<img src=x onerror="alert('page')">\u202e<script>alert(1)</script>`;

/** NUL, BEL, an escape sequence of terminals, controls of the upper half, line separators and a mark that turns the direction of text. */
export const CONTROLS = 'Name\u0000\u0007\u001b[31m\u007f\u0085\u2028\u061c\u202eend';
const LONG = `${HOSTILE}${'W'.repeat(10_000)}`;

const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.codePointAt(0)};`);
const PAGES = {
  '/': `<title>Shop</title><h1>Shop</h1><p>Welcome.</p><a href="/drive">Checkout</a>`,
  '/drive': `<title>Checkout</title><style>*{box-sizing:border-box;font:20px sans-serif}input,button{position:absolute;left:20px;width:300px;height:60px}</style>
    <input id="name" aria-label="Name" style="top:80px"><button id="pay" style="top:180px" onclick="document.title = 'Paid ' + document.querySelector('#name').value">Pay now</button>`,
  '/hostile': `<title>${escaped(HOSTILE)}</title><h1>Hostile</h1><script>console.error(${JSON.stringify(HOSTILE).replace(/</g, '\\u003c')}); console.log('W'.repeat(10000));
    fetch('/missing?' + encodeURIComponent(${JSON.stringify(HOSTILE).replace(/</g, '\\u003c')})).catch(() => {});
    history.replaceState(null, '', '/hostile?q=' + ${JSON.stringify(HOSTILE).replace(/</g, '\\u003c')})</script>`,
  '/controls': `<title>Controls</title><h1>Controls</h1><a id="get" download="a">Get</a><button id="ask">Ask</button><script>
    const text = ${JSON.stringify(CONTROLS)};
    document.title = text;
    for (const level of ['log', 'warn', 'error']) console[level](text, { [text]: text });
    fetch('/missing?' + encodeURIComponent(text)).catch(() => {});
    history.replaceState(null, '', '/controls?q=' + encodeURIComponent(text) + '#' + text);
    const link = document.querySelector('#get');
    [link.href, link.download] = [URL.createObjectURL(new Blob([text])), text + '.txt'];
    document.querySelector('#ask').addEventListener('click', () => prompt(text, text));
    setTimeout(() => { throw new Error(text); });
  </script>`,
  '/animated': `<title>Animated</title><style>body{margin:0}#mark{position:fixed;inset:0 auto auto 0;width:120px;height:120px}
    i{position:fixed;left:0;width:100vw;height:60px;background:linear-gradient(90deg,#246,#fc8);animation:move 1.6s linear infinite alternate}@keyframes move{from{top:140px}to{top:700px}}</style>
    <div id="mark"></div><i></i><script>
    const COLOURS = ['#000000', '#ff0000', '#00ff00', '#0000ff', '#ffffff'];
    window.changes = [];
    const change = () => {
      requestAnimationFrame(() => {
        const colour = changes.length % COLOURS.length;
        document.querySelector('#mark').style.background = COLOURS[colour];
        changes.push({ at: Date.now(), colour });
        if (changes.length > 500) changes.length = 0;
        setTimeout(change, 400 + Math.random() * 200);
      });
    };
    change();
  </script>`,
  '/ask': `<title>Ask</title><h1>Ask</h1><button id="ask" onclick="document.title = String(confirm(${escaped(JSON.stringify(HOSTILE))}))">Ask</button>`,
  '/shop': `<title>Fjord Outdoor</title><style>body{margin:0;font:16px/1.4 -apple-system,system-ui,sans-serif;color:#1d2b26;background:#f6f3ee}header{padding:14px 18px;background:#1f4d3d;color:#fff;font-weight:700;font-size:19px}
    .hero{padding:28px 18px;background:linear-gradient(160deg,#2f6f59,#88b49a);color:#fff}h1{margin:0 0 6px;font-size:27px}ul{display:grid;grid-template-columns:1fr 1fr;gap:12px;margin:0;padding:18px;list-style:none}
    li{padding:12px;border-radius:14px;background:#fff}i{display:block;height:96px;margin-bottom:10px;border-radius:10px;background:#d9e4dc}li:nth-child(2n) i{background:#efd9c3}li:nth-child(3n) i{background:#c9d7e6}b{display:block}
    button{display:block;width:calc(100% - 36px);margin:0 18px 24px;padding:15px;border:0;border-radius:12px;background:#1f4d3d;color:#fff;font:600 17px sans-serif}</style>
    <header>Fjord Outdoor</header><div class="hero"><h1>Autumn sale</h1>Everything for the first frost.</div>
    <ul><li><i></i><b>Wool cap</b>29 €</li><li><i></i><b>Trail boots</b>149 €</li><li><i></i><b>Rain shell</b>189 €</li><li><i></i><b>Camp stove</b>74 €</li></ul>
    <button id="pay" onclick="document.title='Thank you'">Pay now</button><script>console.info('Shop 4.2.1 is ready'); console.warn('The price list is 2 hours old'); fetch('/prices.json').catch(() => {}); fetch('/stock.json').catch(() => {})</script>`,
  '/long': `<title>${escaped(LONG)}</title><h1>Long</h1>`,
};

/** Serves {@link PAGES} to the browsers. Returns its address and a function that ends it. */
export async function serveSite() {
  const server = createServer((request, response) => {
    const page = PAGES[new URL(request.url, 'http://localhost').pathname];
    response.writeHead(page ? 200 : 404, { 'Content-Type': 'text/html; charset=utf-8' });
    response.end(`<!doctype html><meta name="viewport" content="width=device-width, initial-scale=1">${page ?? '<title>Missing</title>'}`);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => { server.close(); server.closeAllConnections(); } };
}
