// What customers, pages and providers write is shown as text, wherever it appears.

import assert from 'node:assert/strict';
import { hasBrowsers, HOSTILE, person } from '../world.mjs';

const MARKUP = '<img src=x onerror="alert(\'page\')">';

/** As {@link HOSTILE}, for fields of a limited length. */
const short = (length) => HOSTILE.slice(0, length);

export async function hostile({ tab, site, look }) {
  const { page } = tab;
  const owner = await person();
  const { api } = owner;
  const long = 'W'.repeat(10_000);
  await api('PATCH', '/v1/account/me', { name: short(120) });
  const session = await api('POST', '/v1/sessions', { label: short(120), record: 'steps', dialogs: 'hold' });
  const longSession = await api('POST', '/v1/sessions', { label: 'W'.repeat(120), record: 'steps' });
  if (hasBrowsers) {
    await api('POST', `/v1/sessions/${session.id}/navigate`, { url: `${site.url}/hostile` });
    await api('POST', `/v1/sessions/${longSession.id}/navigate`, { url: `${site.url}/long` });
  }
  const profile = await api('POST', '/v1/profiles', { name: short(120) });
  await api('POST', `/v1/profiles/${profile.id}/snapshots`, { label: short(120) });
  const agent = await api('POST', '/v1/agent-sessions', { label: short(120) });
  await api('POST', `/v1/agent-sessions/${agent.id}/message`, { message: `${HOSTILE} ${long.slice(0, 9_000)}` });
  await api('POST', `/v1/agent-sessions/${agent.id}/message`, { message: `wait 1 ms` });
  const recipe = await api('POST', '/v1/recipes', { agent_session_id: agent.id, label: short(120), description: HOSTILE.padEnd(2_000, 'W') });
  await api('POST', '/v1/api-keys', { name: short(120), scopes: ['read'] });
  await api('POST', '/v1/oauth/clients', { name: short(120), scopes: ['read'] });
  await api('POST', '/v1/account/me/proxies', { label: short(120), scheme: 'socks5', host: '127.0.0.1', port: 9, username: short(100) });
  const endpoint = await api('POST', '/v1/webhooks', { url: `https://example.com/${encodeURIComponent(HOSTILE)}`, description: HOSTILE, events: ['session.failed'] });
  const { data: [team] } = await api('GET', '/v1/teams');
  if (team) await api('PATCH', `/v1/teams/${team.id}`, { name: short(100) });

  await tab.enter(owner);
  const shows = async (path, { has = true } = {}) => {
    await tab.goto(path);
    if (has) await page.getByText(MARKUP).first().waitFor();
    assert.equal(await page.evaluate(() => document.querySelectorAll('main img[src="x"]').length), 0, path);
    const text = await page.evaluate(() => document.body.innerText + [...document.querySelectorAll('[title], [aria-label]')].map((node) => node.title + node.ariaLabel).join(''));
    assert.ok(!/[\u202a-\u202e\u2066-\u2069]/.test(text), `${path} shows a mark that turns the direction of text`);
    await tab.check(`hostile${path.split('/')[1] ?? ''}`, look);
  };
  await shows('/');
  await shows('/sessions');
  for (const id of [session.id, longSession.id]) {
    await shows(`/sessions/${id}`, { has: id === session.id });
    for (const part of [/Network/, /Console/, 'Pages', 'Downloads', 'Details']) {
      await page.getByRole('tab', { name: part }).click();
      await page.waitForTimeout(200);
      tab.assertQuiet(`session, ${part}`);
    }
  }
  if (hasBrowsers) {
    // A dialog of the page stays in the page.
    await api('POST', `/v1/sessions/${session.id}/navigate`, { url: `${site.url}/ask` });
    await tab.goto(`/sessions/${session.id}`);
    await api('POST', `/v1/sessions/${session.id}/interact`, { action: { kind: 'tap', selector: '#ask' } });
    await page.getByText('The page shows a dialog').waitFor();
    await tab.check('hostile-dialog', look);
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await page.getByText('The page shows a dialog').waitFor({ state: 'detached' });
  }
  await shows('/profiles');
  await shows(`/profiles/${profile.id}`);
  await shows('/agents');
  await shows(`/agents/${agent.id}`);
  await shows('/recipes');
  await shows(`/recipes/${recipe.id}`);
  await shows('/keys');
  await shows('/keys?tab=clients');
  await shows('/proxies');
  await shows('/webhooks');
  await shows(`/webhooks/${endpoint.id}`);
  await shows('/team', { has: Boolean(team) });
  await shows('/settings', { has: false });
  await shows('/audit-log', { has: false });
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').getByRole('combobox').fill('img');
  await page.getByRole('option').getByText(MARKUP).first().waitFor();
  tab.assertQuiet('palette');
}
