// Five flows with the keyboard alone. Each element is reached by Tab, and shows where the focus is.

import assert from 'node:assert/strict';
import { env } from '../browser.mjs';
import { hook, person } from '../world.mjs';

const MOST_STEPS = 120;

/** Moves the focus by Tab until it is on the element. */
async function reach(page, locator, key = 'Tab') {
  await locator.first().waitFor();
  const wanted = await locator.first().elementHandle();
  for (let step = 0; step < MOST_STEPS; step += 1) {
    if (await wanted.evaluate((node) => node === document.activeElement)) {
      const isShown = await page.evaluate(() => {
        const { outlineStyle, boxShadow } = getComputedStyle(document.activeElement.matches('.device input') ? document.activeElement.parentElement : document.activeElement);
        return outlineStyle !== 'none' || boxShadow !== 'none';
      });
      assert.ok(isShown, `the focus on ${locator} cannot be seen`);
      return;
    }
    await page.keyboard.press(key);
  }
  throw new Error(`${locator} cannot be reached by ${key}`);
}

async function press(page, locator, key = 'Enter') {
  await reach(page, locator);
  await page.keyboard.press(key);
}

async function type(page, locator, text) {
  await reach(page, locator);
  await page.keyboard.type(text);
}

export async function byKeyboard({ tab, look }) {
  const { page } = tab;
  const { email } = await person();
  const button = (name) => page.getByRole('button', { name, exact: true });
  const dialog = page.getByRole('dialog');
  const inDialog = (name) => dialog.getByRole('button', { name, exact: true });
  const open = async (title) => {
    if (look.size.name === 'phone') await press(page, button('Menu'));
    await press(page, page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: title, exact: true }));
    await page.getByRole('heading', { level: 1, name: title }).waitFor();
  };

  // 1. Sign in.
  await page.goto(`${env.url}/app/`);
  await type(page, page.getByLabel('E-mail'), email);
  await type(page, page.getByLabel('Password'), env.password);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await press(page, page.getByRole('link', { name: 'Skip to content' }));

  // 2. Create a session, and end it.
  await press(page, button('New session'));
  await type(page, dialog.getByLabel('Label'), 'By keyboard');
  await press(page, inDialog('Create session'));
  await page.getByRole('heading', { level: 1, name: 'By keyboard' }).waitFor();
  await press(page, page.getByRole('tab', { name: 'Try it' }), 'ArrowRight');
  await page.getByRole('tab', { name: /Network/, selected: true }).waitFor();
  await press(page, button('End session'));
  await press(page, inDialog('End session'));
  await page.getByText('The session has ended').waitFor();

  // 3. Create a key. Escape closes a window, and the focus returns.
  await open('API keys');
  await press(page, button('New key'));
  await dialog.waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.ok(await button('New key').first().evaluate((node) => node === document.activeElement), 'the focus returns');
  await page.keyboard.press('Enter');
  await type(page, dialog.getByLabel('Name'), 'By keyboard');
  await page.keyboard.press('Enter');
  await press(page, inDialog('I have stored it'));
  await page.getByRole('row', { name: /By keyboard/ }).waitFor();

  // 4. Make an endpoint, and send a test.
  await open('Webhooks');
  await press(page, button('New endpoint'));
  await reach(page, dialog.getByLabel('Address'));
  await page.keyboard.press('Control+a');
  await page.keyboard.type(hook ?? 'https://example.com/hook');
  await page.keyboard.press('Enter');
  await press(page, inDialog('I have stored it'));
  await press(page, button('Send a test'));
  await page.getByText('A test was sent.').waitFor();

  // 5. Invite a teammate, by the palette.
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').getByRole('combobox').waitFor();
  await page.keyboard.type('team');
  await page.keyboard.press('Enter');
  await press(page, button('Invite a person'));
  await type(page, dialog.getByLabel('E-mail'), 'mate@example.com');
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  await press(page, inDialog('Send the invitation'));
  await page.getByRole('row', { name: /mate@example\.com/ }).getByText('admin').waitFor();
}
