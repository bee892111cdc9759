// Flows that meet trouble: an expired sign-in, a service that is away, two tabs, many tabs, and addresses written by another page.

import assert from 'node:assert/strict';
import { ask, person } from '../world.mjs';
import { Guarded } from '../browser.mjs';

/** The sign-in ends while a form is open. It is asked in place, and nothing that was typed is lost. */
export async function expiredSignIn({ tab, look }) {
  const { page } = tab;
  const owner = await person();
  await tab.enter(owner, '/keys');
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'New key' }).first().click();
  await dialog.getByLabel('Name').fill('Typed before');
  await dialog.getByLabel('Expires').selectOption({ label: 'In 30 days' });
  tab.expected.add(401);
  await ask('POST', '/v1/auth/logout', { token: owner.session.token });
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('heading', { name: 'Sign in again' }).waitFor();
  await tab.check('expired', look);
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'Typed before');
  assert.equal(await page.getByLabel('Expires').inputValue(), '30');
  await page.getByLabel('E-mail').fill(owner.email);
  await page.getByLabel('Password').fill(process.env.DASHBOARD_PASSWORD);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await dialog.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByRole('row', { name: /Typed before/ }).waitFor();
  // Giving up leads to the sign-in, without the page that the person saw before.
  const { token } = await page.evaluate(() => JSON.parse(sessionStorage.getItem('kitfleet.session')));
  await ask('POST', '/v1/auth/logout', { token });
  await page.getByRole('tab', { name: 'OAuth clients' }).click();
  await page.getByRole('heading', { name: 'Sign in again' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
}

/** The service goes away and comes back: data stays visible, and a form can be sent again. */
export async function serviceAway({ tab, look }) {
  const { page } = tab;
  const owner = await person();
  await owner.api('POST', '/v1/sessions', { label: 'Still visible' });
  await tab.enter(owner, '/sessions');
  await page.getByRole('link', { name: 'Still visible' }).waitFor();
  await page.getByRole('button', { name: 'New session' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Label').fill('Sent twice');
  await dialog.getByRole('radio').first().waitFor({ state: 'attached' });
  tab.isAway = true;
  await page.context().setOffline(true);
  await dialog.getByRole('button', { name: 'Create session' }).click();
  await dialog.getByText('The service could not be reached.').waitFor();
  assert.equal(await dialog.getByLabel('Label').inputValue(), 'Sent twice');
  await page.getByText('This device is offline.').waitFor();
  await page.getByRole('link', { name: 'Still visible' }).waitFor();
  await tab.check('offline', look);
  await page.context().setOffline(false);
  tab.isAway = false;
  await dialog.getByRole('button', { name: 'Create session' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sent twice' }).waitFor();

  // The service itself is away: an error with a way to try again.
  tab.isAway = true;
  await page.route('**/v1/**', (route) => route.abort('connectionrefused'));
  await tab.follow('Profiles');
  await page.getByText('The service could not be reached.').first().waitFor();
  await page.unroute('**/v1/**');
  tab.isAway = false;
  await page.getByRole('button', { name: 'Try again' }).first().click();
  await page.getByText('There are no profiles yet.').waitFor();
}

/** What one tab changes, the other one shows. */
export async function twoTabs({ tab, look }) {
  const owner = await person();
  const other = await Guarded.open(null, { ...look, context: tab.page.context() });
  await tab.enter(owner, '/sessions');
  await other.enter(owner, '/sessions');
  await tab.page.getByRole('button', { name: 'New session' }).first().click();
  const dialog = tab.page.getByRole('dialog');
  await dialog.getByLabel('Label').fill('Seen by both');
  await dialog.getByRole('button', { name: 'Create session' }).click();
  await other.page.getByRole('link', { name: 'Seen by both' }).waitFor();
  await other.page.getByRole('link', { name: 'Seen by both' }).click();
  // The tabs learn one after another that the session has ended.
  for (const one of [tab, other]) one.expected.add(410);
  await other.page.getByRole('button', { name: 'End session' }).click();
  await other.page.getByRole('dialog').getByRole('button', { name: 'End session' }).click();
  await tab.page.getByText('The session has ended').waitFor();
  // Signing out in one tab ends only its own sign-in of the person; the other tab asks again.
  for (const one of [tab, other]) one.expected.add(401);
  if (await other.page.getByRole('button', { name: 'Menu', exact: true }).isVisible()) await other.page.getByRole('button', { name: 'Menu', exact: true }).click();
  await other.page.getByRole('button', { name: 'Sign out' }).click();
  await other.page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  await tab.page.locator('nav a[href$="/profiles"]').evaluate((link) => link.click());
  await tab.page.getByRole('heading', { name: 'Sign in again' }).waitFor();
  other.assertQuiet('the other tab');
  await other.page.close();
}

/** Seven tabs of a session, of which one is shown. A browser has six connections to a service without HTTP/2. */
export async function manyTabs({ tab, look }) {
  const owner = await person();
  const { id } = await owner.api('POST', '/v1/sessions', { label: 'In many tabs', record: 'steps' });
  const context = tab.page.context();
  const tabs = [tab];
  while (tabs.length < 7) tabs.push(await Guarded.open(null, { ...look, context }));
  const streams = new Map();
  for (const one of tabs) {
    // A browser that is driven shows all its tabs.
    await one.page.addInitScript(() => {
      let isHidden = false;
      Object.defineProperty(document, 'hidden', { get: () => isHidden });
      globalThis.hide = (value) => {
        isHidden = value;
        document.dispatchEvent(new Event('visibilitychange', { bubbles: true }));
      };
    });
    const open = new Set();
    streams.set(one, open);
    one.page.on('request', (request) => { if (/\/(stream|timeline)$/.test(request.url())) open.add(request); });
    for (const ended of ['requestfinished', 'requestfailed']) one.page.on(ended, (request) => open.delete(request));
    await one.enter(owner, `/sessions/${id}`);
    await one.page.getByRole('tab', { name: 'Try it' }).waitFor();
    await one.page.getByText('Open the browser').waitFor();
    await one.page.evaluate(() => globalThis.hide(true));
  }
  const until = async (what, holds) => {
    for (let attempt = 0; !holds(); attempt += 1) {
      assert.ok(attempt < 50, what);
      await tab.page.waitForTimeout(100);
    }
  };
  await until('hidden tabs keep streams', () => [...streams.values()].every(({ size }) => size === 0));

  // A tab that is shown again has the missed changes.
  tab.expected.add(410);
  await owner.api('DELETE', `/v1/sessions/${id}`);
  await tab.page.evaluate(() => globalThis.hide(false));
  await tab.page.getByText('The session has ended').waitFor();
  await until('the shown tab has no stream', () => streams.get(tab).size > 0);
  for (const one of tabs.slice(1)) {
    one.assertQuiet('a hidden tab');
    await one.page.close();
  }
}

/** Shown tabs of an account share one stream of notifications, and another tab takes it over. */
export async function sharedStream({ tab, look }) {
  const owner = await person();
  const other = await Guarded.open(null, { ...look, context: tab.page.context() });
  const open = new Map();
  for (const one of [other, tab]) {
    const own = new Set();
    open.set(one, own);
    one.page.on('request', (request) => { if (request.url().endsWith('/notifications/stream')) own.add(request); });
    for (const ended of ['requestfinished', 'requestfailed']) one.page.on(ended, (request) => own.delete(request));
    await one.enter(owner, '/keys');
    await one.page.getByText('There are no API keys yet.').waitFor();
    // The stream begins after the page.
    await one.page.waitForTimeout(1_000);
  }
  assert.deepEqual([...open.values()].map(({ size }) => size), [1, 0]);
  const created = (name) => owner.api('POST', '/v1/api-keys', { name, scopes: ['read'] });
  const revoked = async ({ id }) => owner.api('DELETE', `/v1/api-keys/${id}`);
  await revoked(await created('First'));
  for (const one of [tab, other]) await one.page.getByRole('row', { name: /First/ }).getByText('revoked').waitFor();
  other.assertQuiet('the other tab');
  await other.page.close();
  await tab.page.waitForTimeout(1_000);
  assert.equal(open.get(tab).size, 1);
  await revoked(await created('Second'));
  await tab.page.getByRole('row', { name: /Second/ }).getByText('revoked').waitFor();
}

/** A link of another page, whose parameter would lead a request to another path. */
export async function strangeAddresses({ tab }) {
  const { page } = tab;
  await tab.enter(await person());
  const asked = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  for (const path of ['/sessions/x%2F..%2F..%2Faccount%2Fme', '/recipes/x%2f..%2f..%2fapi-keys%3F', '/profiles/..%5C..%5Caccount%5Cme', '/webhooks/x%23', '/agents/%2e%2e%2fx']) {
    await tab.goto(path);
    await page.getByText('This address does not exist.').waitFor();
  }
  assert.deepEqual(asked.filter((path) => /timeline|api-keys|recipes|profiles|webhooks|agent-sessions|%/.test(path.replace(/^\/app\/.*/, ''))), []);
}
