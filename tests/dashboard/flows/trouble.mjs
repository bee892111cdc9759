// Flows that meet trouble: an expired sign-in, a service that is away, and two tabs.

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
  // Giving up leads to the sign-in, without what the person saw before.
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
