// Flows of the team, usage, the audit log, billing and settings.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { Guarded } from '../browser.mjs';
import { mailedLink, person, signedIn, totp } from '../world.mjs';

/** A teammate is invited, reads, becomes an admin, and is removed while the page is open. */
export async function team({ tab, browser, look }) {
  const { page } = tab;
  const [owner, mate] = [await person(), await person()];
  await owner.api('POST', '/v1/sessions', { label: 'Of the owner' });
  await tab.enter(owner, '/team');
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Invite a person' }).click();
  await dialog.getByLabel('E-mail').fill(mate.email);
  await dialog.getByRole('button', { name: 'Send the invitation' }).click();
  await page.getByRole('row', { name: new RegExp(mate.email) }).waitFor();

  const other = await Guarded.open(browser, look);
  await other.enter(mate);
  await other.page.goto(await mailedLink(mate.email, '/team/accept'));
  await other.page.getByRole('button', { name: 'Join' }).click();
  await other.page.getByRole('link', { name: 'Open the dashboard' }).click();
  await other.settled();
  const menu = other.page.getByRole('button', { name: 'Menu', exact: true });
  if (await menu.isVisible()) await menu.click();
  await other.page.getByRole('combobox', { name: /^Account/ }).selectOption({ index: 1 });
  await other.page.getByText('a member, who can only read').waitFor();
  // The page gives a member the reason before they try.
  await other.follow('Sessions');
  await other.page.getByRole('link', { name: 'Of the owner' }).waitFor();
  assert.ok(await other.page.getByRole('button', { name: 'New session' }).first().isDisabled());
  await other.follow('API keys');
  await other.page.getByText('Members of a team can only read').first().waitFor();
  await other.follow('Webhooks');
  assert.ok(await other.page.getByRole('button', { name: 'New endpoint' }).first().isDisabled());
  await other.check('member', look);

  await page.reload();
  await tab.settled();
  await page.getByLabel(`Role of ${mate.email}`).selectOption('admin');
  await page.waitForFunction(() => document.querySelector('select.role')?.value === 'admin' && !document.querySelector('select.role').disabled);
  await other.page.reload();
  await other.page.getByText('as an admin').waitFor();
  await other.follow('Sessions');
  assert.ok(await other.page.getByRole('button', { name: 'New session' }).first().isEnabled());

  await page.getByRole('button', { name: `Remove ${mate.email}` }).click();
  await dialog.getByRole('button', { name: 'Remove', exact: true }).click();
  await page.getByText('You work alone.').waitFor();
  // The next request of the removed member is rejected. The page says so, and leads back.
  for (const status of [401, 403]) other.expected.add(status);
  await other.follow('Usage');
  await other.page.getByText('You no longer belong to this team.').first().waitFor();
  await other.page.getByRole('button', { name: 'Return to your own account' }).click();
  await other.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await other.close();
}

/** The page names the limits of the plan. */
export async function freePlan({ tab, look }) {
  await tab.enter(await person('free'), '/keys');
  await tab.page.getByText('API keys do not work on the free plan.').waitFor();
  await tab.check('free-keys', look);
  await tab.page.getByRole('link', { name: 'Plans' }).click();
  await tab.page.getByText('present plan', { exact: true }).waitFor();
}

export async function usage({ tab, look }) {
  const owner = await person();
  await owner.api('POST', '/v1/sessions', { label: 'Used' });
  await tab.enter(owner, '/usage');
  await tab.page.getByRole('tab', { name: '7 days' }).click();
  await tab.page.getByText('Today is counted from tomorrow on.').first().waitFor();
  await tab.page.getByRole('tab', { name: 'Device' }).click();
  await tab.settled();
  await tab.check('usage-week', look);
  await tab.follow('Billing');
  await tab.page.getByText('present plan', { exact: true }).waitFor();
}

export async function auditLog({ tab }) {
  const { page } = tab;
  const owner = await person();
  const key = await owner.api('POST', '/v1/api-keys', { name: 'Seen', scopes: ['read'] });
  await tab.enter(owner, '/audit-log');
  await page.getByLabel('Action').fill('api_key.minted');
  await page.getByLabel('Action').press('Enter');
  await page.waitForFunction(() => [...document.querySelectorAll('tbody tr')].length > 0 && [...document.querySelectorAll('tbody tr')].every((row) => row.textContent.includes('api_key.minted')));
  await page.getByRole('searchbox', { name: 'Resource' }).fill(key.id);
  await page.getByRole('searchbox', { name: 'Resource' }).press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1);
  // A filter that the service does not take is refused at its field.
  tab.expected.add(400);
  await page.getByLabel('Account that acted').fill('nobody');
  await page.getByLabel('Account that acted').press('Enter');
  await page.getByRole('alert').first().waitFor();
  await page.getByRole('button', { name: 'Remove the filters' }).click();
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length > 1);
  for (const [format, words] of [['CSV', 'api_key.minted'], ['JSON', '"api_key.minted"']]) {
    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: `Export ${format}` }).click();
    assert.ok((await readFile(await (await downloading).path(), 'utf8')).includes(words), format);
  }
}

/** The name, the second factor with its step-up, the password, other sign-ins, and the end of the account. */
export async function settings({ tab, look }) {
  const { page } = tab;
  const owner = await person();
  await tab.enter(owner, '/settings');
  const dialog = page.getByRole('dialog');
  await page.getByLabel('Name', { exact: true }).fill('Grace Hopper');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('The name is saved.').waitFor();

  await page.getByRole('tab', { name: 'Second factor' }).click();
  await page.getByRole('button', { name: 'Set up' }).click();
  await page.getByRole('img', { name: 'QR code for the authenticator app' }).waitFor();
  await dialog.getByRole('button', { name: /^Copy the key/ }).click();
  const secret = await tab.copied();
  tab.expected.add(400);
  await dialog.getByLabel('Code that the app shows').fill('000000');
  await dialog.getByRole('button', { name: 'Turn on' }).click();
  await dialog.getByRole('alert').waitFor();
  assert.deepEqual(await dialog.getByRole('alert').allInnerTexts(), ['It is wrong, or no enrollment is pending.']);
  await tab.check('second-factor', look);
  await dialog.getByLabel('Code that the app shows').fill(totp(secret));
  await dialog.getByRole('button', { name: 'Turn on' }).click();
  await page.getByRole('heading', { name: 'Recovery codes' }).first().waitFor();
  await dialog.getByRole('button', { name: 'Copy' }).click();
  const [recovery] = (await tab.copied()).split('\n');
  await dialog.getByRole('button', { name: 'I have stored them' }).click();
  await page.getByText('on', { exact: true }).waitFor();

  // The change of the password needs the factor: it is asked in place, and nothing that was typed is lost.
  tab.expected.add(403);
  await page.getByRole('tab', { name: 'Account' }).click();
  await page.getByLabel('Present password').last().fill(process.env.DASHBOARD_PASSWORD);
  await page.getByLabel('New password').fill(process.env.DASHBOARD_PASSWORD);
  await page.getByRole('button', { name: 'Change the password' }).click();
  await dialog.getByRole('heading', { name: 'Confirm that it is you' }).waitFor();
  assert.equal(await page.getByLabel('New password').inputValue(), process.env.DASHBOARD_PASSWORD);
  await dialog.getByLabel('Code of your authenticator app, or a recovery code').fill('AAAAA-AAAAA');
  await dialog.getByRole('button', { name: 'Go on' }).click();
  await dialog.getByRole('alert').waitFor();
  await dialog.getByLabel('Code of your authenticator app, or a recovery code').fill(recovery);
  await dialog.getByRole('button', { name: 'Go on' }).click();
  await page.getByText('The password is changed.').waitFor();

  await page.getByRole('tab', { name: 'Notifications' }).click();
  await page.getByLabel('Welcome after signing up').click();
  await page.getByRole('tab', { name: 'Sign-ins' }).click();
  await page.getByText('this one').waitFor();
  await page.getByRole('button', { name: 'End all others' }).click();
  await dialog.getByRole('button', { name: 'End all others' }).click();
  await page.getByText(/have ended|has ended/).waitFor();

  await page.getByRole('tab', { name: 'Account' }).click();
  await page.getByRole('button', { name: 'Delete the account…' }).click();
  const remove = dialog.getByRole('button', { name: 'Delete the account', exact: true });
  assert.ok(await remove.isDisabled());
  await dialog.getByLabel('Type delete-account').fill('delete-account');
  await remove.click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  tab.expected.add(401);
  await page.getByLabel('E-mail').fill(owner.email);
  await page.getByLabel('Password').fill(process.env.DASHBOARD_PASSWORD);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('alert').waitFor();
}

/** Another browser is listed, and ended from this one. */
export async function signIns({ tab }) {
  const owner = await person();
  await signedIn(owner.email);
  await tab.enter(owner, '/settings?tab=sign-ins');
  const ends = tab.page.getByRole('button', { name: /^End the sign-in/ });
  await ends.first().waitFor();
  const others = await ends.count();
  await ends.first().click();
  await tab.page.waitForFunction((before) => document.querySelectorAll('[aria-label^="End the sign-in"]').length === before - 1, others);
}

/** From the address alone: an account is created, and its mail is confirmed. */
export async function signUp({ tab, look }) {
  const { page } = tab;
  const email = `newcomer-${look.size.name}-${Date.now()}@example.com`;
  await page.goto(process.env.DASHBOARD_URL);
  await page.getByRole('button', { name: 'Create an account' }).click();
  await page.getByLabel('Name').fill('New Comer');
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill('short');
  tab.expected.add(400);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.locator('[aria-invalid=true]').waitFor();
  assert.equal(await page.getByLabel('Name').inputValue(), 'New Comer');
  await page.getByLabel('Password').fill(process.env.DASHBOARD_PASSWORD);
  await tab.check('sign-up', look);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByText(`A link has been sent to ${email}`).waitFor();
  await page.goto(await mailedLink(email, '/verify-email'));
  await page.getByRole('button').first().click();
  await page.getByRole('link', { name: 'Open the dashboard' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
}
