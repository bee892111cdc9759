// Pictures of all pages with data of an account that is in use, in both widths and both themes, into DASHBOARD_PICTURES: a layout
// does not depend on the theme, and colours do not depend on the width. With DASHBOARD_DOCS each width is shown in each theme, and the
// pictures of docs/dashboard.md are written into that folder.

import { mkdir, stat, writeFile } from 'node:fs/promises';
import { env, Guarded, SIZES, withBrowser } from './browser.mjs';
import { hook, person, serveSite } from './world.mjs';

const MOST_BYTES = 60_000;
/** Pages of which docs/dashboard.md has pictures, each in both widths and themes. */
const IN_DOCS = ['overview', 'sessions', 'session', 'agent', 'recipe', 'profile', 'delivery', 'keys', 'team', 'usage', 'audit-log', 'security'];

const [wide, phone] = SIZES;
const LOOKS = [{ size: wide, theme: 'light' }, { size: phone, theme: 'dark' }];
if (process.env.DASHBOARD_DOCS) LOOKS.push({ size: wide, theme: 'dark' }, { size: phone, theme: 'light' });

const site = await serveSite();
const [owner, mate] = [await person(), await person()];
const { api } = owner;

/** What months of use leave behind, made within seconds. Returns the addresses of the pages. */
async function furnish() {
  await api('PATCH', '/v1/account/me', { name: 'Ada Lovelace' });
  const started = async (label, address, more = {}) => {
    const { id } = await api('POST', '/v1/sessions', { label, record: 'steps', ...more });
    await api('POST', `/v1/sessions/${id}/navigate`, { url: address });
    return id;
  };
  for (const label of ['Price check, Berlin', 'Sign-in test', 'Newsletter form']) {
    const id = await started(label, `${site.url}/shop`);
    await api('DELETE', `/v1/sessions/${id}`);
  }
  await started('Stock monitor', `${site.url}/shop`, { locale: 'de-DE', timezone: 'Europe/Berlin' });
  const session = await started('Checkout on Fjord Outdoor', `${site.url}/shop`);
  const act = (action) => api('POST', `/v1/sessions/${session}/interact`, { action });
  await act({ kind: 'scroll', delta_y: 160 });
  await act({ kind: 'tap', selector: 'li:nth-child(2)' });
  await api('POST', `/v1/sessions/${session}/extract`, { extractions: [{ name: 'price', selector: 'li:nth-child(2)', type: 'text' }] });
  await api('POST', `/v1/sessions/${session}/wait`, { condition: { kind: 'selector', selector: '#sold-out' }, timeout_ms: 300, on_timeout: 'return' });
  await act({ kind: 'tap', selector: '#pay' });

  const agent = await api('POST', '/v1/agent-sessions', { label: 'Buyer' });
  const say = (message) => api('POST', `/v1/agent-sessions/${agent.id}/message`, { message });
  await say(`open ${site.url}/shop, then scroll down`);
  await say('read the text "Trail boots" as boots');
  await say('tap "Wool cap", then tap "Pay now"');
  const recipes = await api('POST', '/v1/recipes', { agent_session_id: agent.id, label: 'Buy a wool cap', description: 'Opens the shop, finds the cap and pays for it.' });

  const profile = await api('POST', '/v1/profiles', { name: 'Returning customer' });
  await api('POST', '/v1/profiles', { name: 'Guest in Hamburg' });
  await api('POST', `/v1/profiles/${profile.id}/snapshots`, { label: 'Signed in' });
  await api('POST', '/v1/account/me/proxies', { label: 'Office', scheme: 'socks5', host: 'proxy.example.com', port: 1080, username: 'ada' });
  await api('POST', '/v1/account/me/proxies', { label: 'Hamburg', scheme: 'http', host: '192.0.2.10', port: 3128 });

  const endpoint = await api('POST', '/v1/webhooks', { url: hook, description: 'Orders', events: ['session.completed', 'session.failed'] });
  await api('POST', '/v1/webhooks', { url: 'https://hooks.example.com/kitfleet', description: 'Alerts on the phone', events: ['session.failed'] });
  for (let sent = 0; sent < 4; sent += 1) await api('POST', `/v1/webhooks/${endpoint.id}/test`);
  const delivery = await failed();
  await api('POST', `/v1/webhook-deliveries/${delivery}/replay`);

  await api('POST', '/v1/api-keys', { name: 'Nightly price check', scopes: ['read', 'write'] });
  await api('POST', '/v1/api-keys', { name: 'Dashboard in the office', scopes: ['read:sessions', 'read:usage'], expires_at: new Date(Date.now() + 5 * 86_400_000).toISOString() });
  const old = await api('POST', '/v1/api-keys', { name: 'Trial of the SDK', scopes: ['read'] });
  await api('DELETE', `/v1/api-keys/${old.id}`);
  await api('POST', '/v1/oauth/clients', { name: 'Reporting', scopes: ['read'] });
  await api('POST', '/v1/team/invites', { email: mate.email, role: 'admin' });
  await api('POST', '/v1/team/invites', { email: 'grace@example.com', role: 'member' });
  return {
    overview: '/', sessions: '/sessions', session: `/sessions/${session}`, agents: '/agents', agent: `/agents/${agent.id}`, approvals: '/approvals', recipes: '/recipes',
    recipe: `/recipes/${recipes.id}`, profiles: '/profiles', profile: `/profiles/${profile.id}`, proxies: '/proxies', webhooks: '/webhooks', webhook: `/webhooks/${endpoint.id}`, deliveries: '/deliveries',
    delivery: `/deliveries/${delivery}`, keys: '/keys', clients: '/keys?tab=clients', team: '/team', usage: '/usage', 'audit-log': '/audit-log', billing: '/billing', settings: '/settings',
    security: '/settings?tab=security', 'sign-ins': '/settings?tab=sign-ins', models: '/settings?tab=models', notifications: '/settings?tab=notifications',
  };
}

async function failed() {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const { data } = await api('GET', '/v1/webhook-deliveries?status=dlq');
    if (data[0]) return data[0].id;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error('no delivery has failed');
}

/** The best quality that fits. */
async function keep(tab, name) {
  const devtools = await tab.page.context().newCDPSession(tab.page);
  for (const quality of [90, 80, 70, 55, 40]) {
    const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality });
    const bytes = Buffer.from(data, 'base64');
    if (bytes.length > MOST_BYTES && quality > 40) continue;
    await mkdir(process.env.DASHBOARD_DOCS, { recursive: true });
    const file = `${process.env.DASHBOARD_DOCS}/${name}.webp`;
    await writeFile(file, bytes);
    if ((await stat(file)).size > MOST_BYTES) throw new Error(`${file} is too large`);
    return;
  }
}

const pages = await furnish();
await withBrowser(async (browser) => {
  for (const { size, theme } of LOOKS) {
    const tab = await Guarded.open(browser, { size, theme });
    await tab.enter(owner);
    for (const [name, path] of Object.entries(pages)) {
      await tab.goto(path);
      // Live screens, charts and pictures of recordings arrive after the data.
      await tab.page.waitForTimeout(name === 'session' || name === 'agent' ? 2_500 : 400);
      await tab.check(name, { size, theme });
      if (process.env.DASHBOARD_DOCS && IN_DOCS.includes(name)) await keep(tab, `${name}-${size.name}-${theme}`);
    }
    await tab.close();
  }
});
site.close();
console.log(`pictures are in ${process.env.DASHBOARD_DOCS ?? env.pictures}`);
