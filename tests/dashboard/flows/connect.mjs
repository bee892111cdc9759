// Flows of profiles, proxies, webhooks, keys and OAuth clients.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { hook, person } from '../world.mjs';

export async function profiles({ tab }) {
  const { page } = tab;
  await tab.enter(await person(), '/profiles');
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'New profile' }).first().click();
  await dialog.getByLabel('Name').fill('Shopper');
  await dialog.getByRole('button', { name: 'Create profile' }).click();
  await page.getByRole('heading', { level: 1, name: 'Shopper' }).waitFor();

  await page.getByRole('button', { name: 'Launch', exact: true }).click();
  await dialog.getByRole('button', { name: 'Launch', exact: true }).click();
  await page.getByRole('button', { name: 'End session' }).click({ timeout: 30_000 });
  await dialog.getByRole('button', { name: 'End session' }).click();
  await page.getByText('The session has ended').waitFor();
  await tab.follow('Profiles');
  await page.getByRole('link', { name: 'Shopper' }).click();

  await page.getByRole('button', { name: /snapshot/i }).first().click();
  await dialog.getByLabel('Label').fill('Signed in');
  await dialog.getByRole('button', { name: 'Take the snapshot' }).click();
  await page.getByRole('row', { name: /Signed in/ }).waitFor();
  const downloading = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  const file = await (await downloading).path();
  assert.ok((await readFile(file, 'utf8')).startsWith('{'));

  await page.getByRole('button', { name: 'Restore Signed in' }).click();
  await dialog.getByRole('button', { name: 'Restore' }).click();
  await page.getByRole('heading', { level: 1, name: 'Shopper (restored)' }).waitFor();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('tab', { name: 'Recycle bin' }).click();
  await page.getByRole('button', { name: 'Restore Shopper (restored)' }).click();
  await page.getByText('The recycle bin is empty.').waitFor();

  await page.getByRole('tab', { name: 'Profiles' }).click();
  await page.getByLabel('Document of a profile').setInputFiles(file);
  await page.getByRole('heading', { level: 1, name: /Shopper/ }).waitFor();
  // A document that is none is refused in the window, which stays.
  await tab.follow('Profiles');
  tab.expected.add(400);
  await page.getByLabel('Document of a profile').setInputFiles({ name: 'x.json', mimeType: 'application/json', buffer: Buffer.from('{}') });
  await dialog.getByRole('alert').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).last().click();
}

export async function proxies({ tab }) {
  const { page } = tab;
  await tab.enter(await person(), '/proxies');
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'New proxy' }).first().click();
  await dialog.getByLabel('Label').fill('Office');
  await dialog.getByLabel('Host').fill('proxy.invalid');
  await dialog.getByLabel('Port').fill('9');
  await dialog.getByRole('button', { name: 'Save proxy' }).click();
  await page.getByRole('heading', { name: 'Office' }).waitFor();
  await page.getByRole('button', { name: 'Check Office' }).click();
  await page.getByText('Sessions cannot use this proxy').waitFor({ timeout: 40_000 });
  await page.getByRole('button', { name: 'Edit Office' }).click();
  await dialog.getByLabel('Label').fill('Home');
  await dialog.getByRole('button', { name: 'Save proxy' }).click();
  await page.getByRole('button', { name: 'Delete Home' }).click();
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('There are no proxies yet.').waitFor();
}

/** A delivery that failed is found, looked at and sent again. */
export async function webhooks({ tab, look }) {
  const { page } = tab;
  await tab.enter(await person(), '/webhooks');
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'New endpoint' }).first().click();
  tab.expected.add(400);
  await dialog.getByLabel('Address').fill('http://example.com/');
  await dialog.getByRole('button', { name: 'Create endpoint' }).click();
  await dialog.getByRole('alert').waitFor();
  assert.deepEqual(await dialog.getByRole('alert').allInnerTexts(), ['Must be an https URL.']);
  assert.ok(await dialog.getByLabel('Address').evaluate((node) => node === document.activeElement), 'the wrong field has the focus');
  await dialog.getByLabel('Address').fill(hook);
  await dialog.getByLabel('Description').fill('Orders');
  await dialog.getByRole('button', { name: 'Create endpoint' }).click();
  await dialog.getByRole('button', { name: /^Signing secret/ }).click();
  const secret = await tab.copied();
  await dialog.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByRole('button', { name: 'Send a test' }).click();
  await page.getByText('A test was sent.').waitFor();

  await tab.follow('Deliveries');
  await page.getByLabel('Status').selectOption('dlq');
  const failed = page.getByRole('row', { name: /test\.ping.*dead letter/ });
  for (let attempt = 0; attempt < 30 && !(await failed.isVisible()); attempt += 1) {
    await page.waitForTimeout(500);
    await page.reload();
    await tab.settled();
  }
  await failed.getByRole('link', { name: 'test.ping' }).click();
  await page.getByRole('region', { name: 'Attempts' }).getByText('500').first().waitFor();
  await tab.check('delivery-failed', look);
  await page.getByRole('button', { name: 'Replay' }).click();
  await page.getByRole('link', { name: 'The new delivery' }).click();
  await page.getByText('delivered', { exact: true }).first().waitFor();

  await page.locator('dl').getByRole('link').first().click();
  await page.getByRole('button', { name: 'Rotate the secret' }).click();
  await dialog.getByRole('button', { name: 'Rotate', exact: true }).click();
  await dialog.getByRole('button', { name: /^Signing secret/ }).click();
  assert.notEqual(await tab.copied(), secret);
  await dialog.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('The endpoint is paused.').waitFor();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Webhooks' }).waitFor();
}

export async function credentials({ tab }) {
  const { page } = tab;
  const owner = await person();
  await tab.enter(owner, '/keys');
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'New key' }).first().click();
  await dialog.getByLabel('Name').fill('Robot');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await dialog.getByRole('button', { name: /^Robot/ }).click();
  const key = await tab.copied();
  await dialog.getByRole('heading', { name: 'The key is created' }).waitFor();
  assert.equal(await dialog.getByRole('button', { name: 'Close' }).count(), 0);
  for (let press = 0; press < 3; press += 1) await page.keyboard.press('Escape');
  await dialog.getByText('The window closes with “I have stored it”.').waitFor();
  await dialog.getByText(key).waitFor();
  await dialog.getByRole('button', { name: 'I have stored it' }).click();
  const status = async () => (await fetch(`${process.env.DASHBOARD_URL}/v1/sessions`, { headers: { Authorization: `Bearer ${key}` } })).status;
  assert.equal(await status(), 200);
  await page.getByRole('button', { name: 'Rename Robot' }).click();
  await dialog.getByLabel('Name').fill('Machine');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Revoke Machine' }).click();
  await dialog.getByRole('button', { name: 'Revoke key' }).click();
  await page.getByRole('row', { name: /Machine/ }).getByText('revoked').waitFor();
  assert.equal(await status(), 401);

  await page.getByRole('tab', { name: 'OAuth clients' }).click();
  await page.getByRole('button', { name: 'New client' }).first().click();
  await dialog.getByLabel('Name').fill('Pipeline');
  await dialog.getByRole('button', { name: 'Create client' }).click();
  await dialog.getByRole('button', { name: /^Client secret/ }).click();
  const secret = await tab.copied();
  await dialog.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByRole('button', { name: 'Rotate the secret of Pipeline' }).click();
  await dialog.getByRole('button', { name: 'Rotate secret' }).click();
  await dialog.getByText('The previous secret works until').waitFor();
  await dialog.getByRole('button', { name: /^Client secret/ }).click();
  assert.notEqual(await tab.copied(), secret);
  await dialog.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByRole('button', { name: 'Delete Pipeline' }).click();
  await dialog.getByRole('button', { name: 'Delete client' }).click();
  await page.getByText('There are no OAuth clients.').waitFor();
}
