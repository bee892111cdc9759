// The main flows in the browser of a session, as an iPhone: the service opens its own dashboard.

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { env } from './browser.mjs';
import { hook, person } from './world.mjs';

const [driver, visitor] = [await person(), await person()];
const { id } = await driver.api('POST', '/v1/sessions', { label: 'The dashboard on a phone', record: 'steps' });
const post = (name, body) => driver.api('POST', `/v1/sessions/${id}/${name}`, body);
const act = (action) => post('interact', { action, timeout_ms: 20_000 });
/** The main action of a page, which an empty list offers once more. */
const FIRST = 'main button.primary';
const named = (role, name) => ({ target: { role, name, exact: true } });

async function until(what, script) {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    if ((await post('evaluate', { script })).value) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`the phone does not show ${what}`);
}

const shows = (text) => until(`"${text}"`, `return document.body.innerText.includes(${JSON.stringify(text)})`);

async function follow(title) {
  await act({ kind: 'tap', ...named('button', 'Menu') });
  await act({ kind: 'tap', ...named('link', title) });
  const path = `/app/${title.toLowerCase().replace('api ', '').replace(' ', '-')}`;
  await until(`the page ${title}`, `return location.pathname === ${JSON.stringify(path)} && Boolean(document.querySelector('main h1'))`);
  const { value } = await post('evaluate', { script: 'return document.documentElement.scrollWidth - document.documentElement.clientWidth' });
  assert.equal(value, 0, `${title} is too wide`);
}

await post('navigate', { url: `${env.url}/app/` });
await act({ kind: 'fill', selector: 'input[type=email]', value: visitor.email });
await act({ kind: 'fill', selector: 'input[type=password]', value: env.password });
await act({ kind: 'tap', ...named('button', 'Sign in') });
await shows('1. Make a session');

await act({ kind: 'tap', selector: FIRST });
await act({ kind: 'tap', ...named('button', 'Create session') });
await shows('Untitled session');
await act({ kind: 'tap', ...named('button', 'End session') });
await act({ kind: 'tap', selector: 'dialog .danger' });
await shows('The session has ended');

await follow('API keys');
await act({ kind: 'tap', selector: FIRST });
await act({ kind: 'fill', selector: 'dialog input[name=name]', value: 'From a phone' });
await act({ kind: 'tap', ...named('button', 'Create key') });
await act({ kind: 'tap', ...named('button', 'I have stored it') });
await shows('From a phone');

await follow('Webhooks');
await act({ kind: 'tap', selector: FIRST });
await act({ kind: 'fill', selector: 'dialog input[name=url]', value: hook });
await act({ kind: 'tap', ...named('button', 'Create endpoint') });
await act({ kind: 'tap', ...named('button', 'I have stored it') });
await act({ kind: 'tap', ...named('button', 'Send a test') });
await shows('A test was sent.');

await follow('Team');
await act({ kind: 'tap', ...named('button', 'Invite a person') });
await act({ kind: 'fill', selector: 'dialog input[name=email]', value: 'mate@example.com' });
await act({ kind: 'tap', ...named('button', 'Send the invitation') });
await shows('mate@example.com');

for (const title of ['Sessions', 'Agents', 'Usage', 'Audit log', 'Settings']) await follow(title);

const { data } = await driver.api('GET', `/v1/sessions/${id}/console?limit=100`);
const errors = data.filter(({ level }) => level === 'error').map(({ text }) => text);
const picture = await post('capture', { kind: 'screenshot' });
if (env.pictures) {
  await mkdir(env.pictures, { recursive: true });
  await writeFile(`${env.pictures}/webkit-phone.png`, Buffer.from(picture.content, 'base64'));
}
await driver.api('DELETE', `/v1/sessions/${id}`);
assert.deepEqual(errors, []);
