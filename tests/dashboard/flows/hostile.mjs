// What customers, pages and providers write is shown as text, wherever it appears.

import assert from 'node:assert/strict';
import { env } from '../browser.mjs';
import { CONTROLS, hasBrowsers, HOSTILE, person } from '../world.mjs';

const MARKUP = '<img src=x onerror="alert(\'page\')">';

/** Characters that turn the direction of text, or that a terminal or a screen reader would obey. */
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u2028-\u202e\u2066-\u2069]/;

/** All text of a page, also that of labels and titles. */
const textOf = (page) =>
  page.evaluate(() => document.title + document.body.innerText + [...document.querySelectorAll('[title], [aria-label]')].map((node) => node.title + node.ariaLabel).join(''));

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
    assert.ok(!UNSEEN.test(await textOf(page)), `${path} shows a mark that turns the direction of text`);
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

/** The service refuses NUL and other control characters, or the pages show spaces in their place. */
export async function controls({ tab, site, look }) {
  const { page } = tab;
  const owner = await person();
  const { api } = owner;
  const kept = [];
  /** Returns what was created, or the one without control characters when these are refused. */
  const create = async (path, body, field) => {
    for (const [name, value] of [['all', CONTROLS], ['without NUL', CONTROLS.replace('\0', '')], ['none', 'Name']]) {
      try {
        const made = await api('POST', path, { ...body, [field]: value });
        if (name !== 'none') kept.push(`${path}: ${name}`);
        return made;
      } catch (refusal) {
        assert.match(refusal.message, / 400 /, `${path} with ${name}`);
      }
    }
    throw new Error(`${path} refuses a plain name`);
  };
  const session = await create('/v1/sessions', { record: 'steps', dialogs: 'hold' }, 'label');
  const agent = await create('/v1/agent-sessions', {}, 'label');
  await create(`/v1/agent-sessions/${agent.id}/message`, {}, 'message');
  await api('POST', `/v1/agent-sessions/${agent.id}/message`, { message: `wait 1 ms` });
  const profile = await create('/v1/profiles', {}, 'name');
  await create(`/v1/profiles/${profile.id}/snapshots`, {}, 'label');
  const recipe = await create('/v1/recipes', { agent_session_id: agent.id, description: CONTROLS.replaceAll(/\p{Cc}/gu, '') }, 'label');
  await create('/v1/api-keys', { scopes: ['read'] }, 'name');
  await create('/v1/oauth/clients', { scopes: ['read'] }, 'name');
  await create('/v1/account/me/proxies', { scheme: 'socks5', host: '127.0.0.1', port: 9 }, 'label');
  const endpoint = await create('/v1/webhooks', { url: `https://example.com/${encodeURIComponent(CONTROLS)}`, events: ['session.failed'] }, 'description');
  if (hasBrowsers) {
    await api('POST', `/v1/sessions/${session.id}/navigate`, { url: `${site.url}/controls` });
    await api('POST', `/v1/sessions/${session.id}/interact`, { action: { kind: 'tap', selector: '#get' } });
  }
  await tab.enter(owner);
  const shows = async (path) => {
    await tab.goto(path);
    const [sign] = UNSEEN.exec(await textOf(page)) ?? [];
    assert.equal(sign?.codePointAt(0).toString(16), undefined, `${path} shows a control character`);
    await tab.check(`controls${path.split('/')[1] ?? ''}`, look);
  };
  for (const path of ['/', '/sessions', `/sessions/${session.id}`, '/agents', `/agents/${agent.id}`, '/profiles', `/profiles/${profile.id}`, '/recipes', `/recipes/${recipe.id}`]) await shows(path);
  for (const path of ['/keys', '/keys?tab=clients', '/proxies', '/webhooks', `/webhooks/${endpoint.id}`, '/team', '/usage', '/audit-log', '/settings', '/approvals']) await shows(path);
  await tab.goto(`/sessions/${session.id}`);
  if (hasBrowsers) {
    await api('POST', `/v1/sessions/${session.id}/interact`, { action: { kind: 'tap', selector: '#ask' } });
    await page.getByText('The page shows a dialog').waitFor();
    assert.ok(!UNSEEN.test(await textOf(page)), 'a dialog shows a control character');
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await page.getByText('The page shows a dialog').waitFor({ state: 'detached' });
  }
  for (const part of [/Network/, /Console/, 'Pages', 'Downloads', 'Details']) {
    await page.getByRole('tab', { name: part }).click();
    await page.waitForTimeout(300);
    assert.ok(!UNSEEN.test(await textOf(page)), `${part} shows a control character`);
    tab.assertQuiet(`session, ${part}`);
  }
  await tab.goto('/sessions');
  await page.getByRole('button', { name: 'New session' }).first().click();
  await page.getByRole('dialog').getByLabel('Profile').waitFor();
  assert.ok(!UNSEEN.test(await textOf(page)), 'the window of a new session shows a control character');
  // Addresses and filters with control characters end nowhere else.
  tab.expected.add(400).add(404);
  for (const path of ['/sessions/%00', '/sessions?label=%00%1b', '/agents/%07', '/audit-log?target_resource_id=%00', '/nowhere%00%1b']) {
    await page.goto(`${env.url}/app${path}`);
    await page.locator('main :is(h1, .notice, [role=alert])').first().waitFor();
    tab.assertQuiet(path);
  }
  // The same typed by a person is refused at its field, or sent without it.
  await tab.goto('/settings');
  await page.getByLabel('Name', { exact: true }).fill(CONTROLS);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.locator('[role=alert], .notice').first().waitFor();
  tab.assertQuiet('the name of the account');
  console.log(`control characters that are kept: ${kept.join(', ') || 'none'}`);
}
