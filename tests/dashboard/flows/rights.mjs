// Each page says what the person may do and why not: the owner, an admin, a member, an account on the free plan, and a removed member.

import assert from 'node:assert/strict';
import { Guarded } from '../browser.mjs';
import { hasBrowsers, hook, mailedLink, person } from '../world.mjs';

const READ_ONLY = /Members of a team (can only read|do not see this page|see neither)/;

/** Has something to change on every page. */
async function furnish({ api }, site) {
  const session = await api('POST', '/v1/sessions', { label: 'Of the owner', record: 'steps' });
  const agent = await api('POST', '/v1/agent-sessions', { label: 'Buyer', mode: 'pair' });
  await api('POST', `/v1/agent-sessions/${agent.id}/message`, { message: `open ${hasBrowsers ? `${site.url}/drive` : 'https://example.com/'}, tap 'Pay now'` });
  const profile = await api('POST', '/v1/profiles', { name: 'Shop' });
  const endpoint = await api('POST', '/v1/webhooks', { url: hook, events: ['session.failed'] });
  await api('POST', `/v1/webhooks/${endpoint.id}/test`, {});
  const delivery = await settled(api, endpoint.id);
  await api('POST', '/v1/api-keys', { name: 'CI', scopes: ['read'] });
  return { session, agent, profile, endpoint, delivery };
}

/** The first delivery of an endpoint, when its last attempt has ended. */
async function settled(api, endpoint) {
  for (let attempt = 0; attempt < 150; attempt += 1) {
    const { data: [delivery] } = await api('GET', `/v1/webhooks/${endpoint}/deliveries`);
    if (['delivered', 'dlq'].includes(delivery?.status)) return delivery;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('the delivery is still in progress');
}

/** Pages of the account that the person works in, each with a button that changes something, or null where nothing can be changed. */
const pagesOf = ({ session, agent, profile, endpoint, delivery }) => [
  ['/', 'New session'],
  ['/sessions', 'New session'],
  [`/sessions/${session.id}`, 'End session'],
  ['/agents', 'New agent'],
  [`/agents/${agent.id}`, 'Close'],
  ['/approvals', 'Decline'],
  ['/profiles', 'New profile'],
  [`/profiles/${profile.id}`, 'Rename'],
  ['/webhooks', 'New endpoint'],
  [`/webhooks/${endpoint.id}`, 'Edit'],
  [`/deliveries/${delivery.id}`, 'Replay'],
  ['/keys', 'New key'],
  ['/deliveries', null],
  ['/usage', null],
  ['/audit-log', null],
];

/** Pages that show the person's own account, also while they work in another. */
const OWN_PAGES = ['/team', '/billing', '/settings', '/proxies', '/recipes', '/keys?tab=clients'];

async function changes(tab, pages, look) {
  for (const [path, button] of pages) {
    await tab.goto(path);
    if (button) {
      const found = tab.page.getByRole('main').getByRole('button', { name: button, exact: true }).first();
      await found.waitFor();
      assert.ok(await found.isEnabled(), `${button} on ${path}`);
    }
    assert.equal(await tab.page.getByText(READ_ONLY).count(), 0, path);
    tab.assertQuiet(path);
  }
  await tab.check('rights', look);
}

async function reads(tab, pages, look) {
  for (const [path, button] of pages) {
    await tab.goto(path);
    if (button) {
      await tab.page.getByText(READ_ONLY).first().waitFor();
      const found = tab.page.getByRole('main').getByRole('button', { name: button, exact: true });
      for (const one of await found.all()) assert.ok(await one.isDisabled(), `${button} on ${path}`);
    }
    const enabled = await tab.page.locator('main :is(button.primary, button.danger):enabled').allInnerTexts();
    assert.deepEqual(enabled, [], `a member can press them on ${path}`);
    // A request that is refused stands on the console, and fails here.
    tab.assertQuiet(path);
  }
  await tab.check('rights-member', look);
}

async function ownPages(tab) {
  for (const path of OWN_PAGES) {
    await tab.goto(path);
    await tab.page.getByText(/your own account/).first().waitFor();
    tab.assertQuiet(path);
  }
}

/** The same pages as the owner, an admin, a member, and after the removal. */
export async function rights({ tab, browser, site, look }) {
  const [owner, mate] = [await person(), await person()];
  const pages = pagesOf(await furnish(owner, site));
  await tab.enter(owner);
  await changes(tab, pages, look);
  for (const path of OWN_PAGES) {
    await tab.goto(path);
    assert.equal(await tab.page.getByText('of your own account').count(), 0, path);
  }

  await owner.api('POST', '/v1/team/invites', { email: mate.email, role: 'admin' });
  const token = new URL(await mailedLink(mate.email, '/team/accept')).searchParams.get('token');
  const { membership } = await mate.api('POST', '/v1/team/invites/accept', { token });
  const other = await Guarded.open(browser, look);
  await other.enter(mate);
  await other.page.evaluate((account) => sessionStorage.setItem('kitfleet.account', account), membership.owner_account_id);
  await changes(other, pages, look);
  await other.page.getByText('as an admin').waitFor();
  await ownPages(other);

  await owner.api('PATCH', `/v1/team/members/${membership.id}`, { role: 'member' });
  await reads(other, pages, look);
  await other.page.getByText('a member, who can only read').waitFor();
  await ownPages(other);

  await owner.api('DELETE', `/v1/team/members/${membership.id}`);
  for (const status of [401, 403]) other.expected.add(status);
  for (const [path] of pages) {
    await other.page.goto(`${process.env.DASHBOARD_URL}/app${path}`);
    await other.page.getByText('You no longer belong to this team.').waitFor();
    const enabled = await other.page.locator('main :is(button.primary, button.danger):enabled').allInnerTexts();
    assert.deepEqual(enabled, [], `a removed member can press them on ${path}`);
    other.assertQuiet(path);
  }
  await other.page.getByRole('button', { name: 'Return to your own account' }).click();
  await other.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await other.close();
}

/** An account on the free plan may change everything within its limits, and a refusal names the limit. */
export async function freeRights({ tab, look }) {
  const { page } = tab;
  const owner = await person('free');
  await tab.enter(owner);
  for (const path of ['/', '/sessions', '/agents', '/approvals', '/recipes', '/profiles', '/webhooks', '/deliveries', '/proxies', '/keys', '/team', '/usage', '/audit-log', '/billing', '/settings']) {
    await tab.goto(path);
    assert.equal(await page.getByText(READ_ONLY).count(), 0, path);
    tab.assertQuiet(path);
  }
  await owner.api('POST', '/v1/sessions', { label: 'The only one' });
  await tab.goto('/');
  await page.getByText('of 1', { exact: true }).waitFor();
  tab.expected.add(403).add(429);
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'New session' }).first().click();
  await dialog.getByRole('button', { name: 'Create session' }).click();
  await dialog.getByText(/limit/).first().waitFor();
  await tab.check('free-session', look);
  await page.keyboard.press('Escape');
  await owner.api('POST', '/v1/profiles', { name: 'The only one' });
  await tab.goto('/profiles');
  await page.getByRole('button', { name: 'New profile' }).first().click();
  await dialog.getByLabel('Name').fill('One too many');
  await dialog.getByRole('button', { name: /^Create/ }).click();
  await dialog.getByText(/limit/).first().waitFor();
}
