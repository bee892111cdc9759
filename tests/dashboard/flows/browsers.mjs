// Flows of sessions, agents, approvals and recipes.

import assert from 'node:assert/strict';
import { hasBrowsers, mailedLink, ownerLink, person } from '../world.mjs';

/** From a link to a session and a key, in an account that has nothing. */
export async function firstMinute({ tab, look }) {
  const { page } = tab;
  if (ownerLink && look.isFirst) {
    await page.goto(ownerLink);
    await page.getByRole('button').first().click();
    await page.getByRole('link', { name: 'Open the dashboard' }).click();
  } else {
    const { email } = await person();
    await page.goto(`${process.env.DASHBOARD_URL}/app/`);
    await page.getByRole('button', { name: 'Sign in by e-mail' }).click();
    await page.getByLabel('E-mail').fill(email);
    await page.getByRole('button', { name: 'Send a link' }).click();
    await page.getByText('a link to sign in has been sent').waitFor();
    await page.goto(await mailedLink(email, '/magic-link'));
    await page.getByRole('button').first().click();
    await page.getByRole('link', { name: 'Open the dashboard' }).click();
  }
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.getByText('1. Make a session').waitFor();
  await tab.check('first-minute', look);
  await page.getByRole('button', { name: 'New session' }).first().click();
  await page.getByRole('dialog').getByRole('button', { name: 'Create session' }).click();
  await page.getByRole('heading', { level: 1, name: 'Untitled session' }).waitFor();
  await screen(tab);
  const sample = page.locator('.sample');
  for (const [title, words] of [['curl', 'curl -X POST'], ['TypeScript', "from '@kitfleet/sdk'"], ['Python', 'from kitfleet import']]) {
    await sample.getByRole('tab', { name: title }).click();
    await sample.getByRole('button', { name: 'Copy' }).click();
    await sample.getByRole('button', { name: 'Copied' }).waitFor();
    assert.ok((await tab.copied()).includes(words), title);
    await sample.getByRole('button', { name: 'Copy' }).waitFor();
  }
  await tab.follow('API keys');
  await page.getByRole('button', { name: 'New key' }).first().click();
  await page.getByRole('dialog').getByLabel('Name').fill('First program');
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByRole('row', { name: /First program/ }).waitFor();
  await tab.follow('Sessions');
  await page.getByRole('link', { name: 'Untitled session' }).click();
  await end(tab);
}

/** Waits for the first picture, if there are browsers. */
async function screen(tab) {
  if (!hasBrowsers) return;
  await tab.page.waitForFunction(() => (document.querySelector('canvas')?.width ?? 0) > 300, undefined, { timeout: 60_000 });
}

async function end({ page }) {
  await page.getByRole('button', { name: 'End session' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End session' }).click();
  await page.getByText('The session has ended').waitFor();
}

/** Creates a session with options, looks at every part of it, and finds it in the list. */
export async function sessions({ tab, site, look }) {
  const { page } = tab;
  const owner = await person();
  await tab.enter(owner, '/sessions');
  await page.getByText('There are no sessions yet').waitFor();
  await page.getByRole('button', { name: 'New session' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Label').fill('Checkout in German');
  await dialog.getByText('Language, time zone and colours').click();
  await dialog.getByRole('textbox', { name: 'Language' }).fill('de-DE');
  await dialog.getByLabel('Time zone').fill('nowhere');
  await dialog.getByLabel('Colour scheme').selectOption('dark');
  tab.expected.add(400);
  await dialog.getByRole('button', { name: 'Create session' }).click();
  // A refusal appears at its field, and the form keeps its text.
  await dialog.locator('[aria-invalid=true]').waitFor();
  assert.equal(await dialog.getByLabel('Label').inputValue(), 'Checkout in German');
  tab.expected.delete(400);
  await dialog.getByLabel('Time zone').fill('Europe/Berlin');
  await dialog.getByRole('button', { name: 'Create session' }).click();
  await page.getByRole('heading', { level: 1, name: 'Checkout in German' }).waitFor();
  await screen(tab);

  await page.getByLabel('Address', { exact: true }).fill(hasBrowsers ? `${site.url}/hostile` : 'https://example.com/');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.locator('pre[role=status]').waitFor({ timeout: 60_000 });
  const timeline = page.getByRole('region', { name: 'Timeline' });
  const step = timeline.getByRole('button', { name: /Navigate/ }).first();
  await step.waitFor();
  if (hasBrowsers) {
    await page.getByRole('tab', { name: /Network/ }).click();
    await page.getByRole('region', { name: 'Requests' }).getByText('hostile').first().waitFor();
    await page.getByRole('tab', { name: /Console/ }).click();
    await page.getByText('<img src=x onerror=').first().waitFor();
    await step.click();
    await page.getByRole('img', { name: /Screen after/ }).waitFor();
    await tab.check('session-recorded', look);
    await page.getByRole('button', { name: 'Back to the live screen' }).click();
  }
  await page.getByRole('tab', { name: 'Pages' }).click();
  await page.getByText('active', { exact: true }).waitFor();
  await page.getByRole('tab', { name: 'Downloads' }).click();
  await page.getByText('Pages have downloaded nothing.').waitFor();
  await page.getByRole('tab', { name: 'Details' }).click();
  await page.getByText('"Europe/Berlin"').waitFor();
  await end(tab);

  await tab.follow('Sessions');
  await page.getByLabel('Status').selectOption('ready');
  await page.getByText('No session matches.').waitFor();
  await page.getByLabel('Status').selectOption('destroyed');
  await page.getByRole('link', { name: 'Checkout in German' }).waitFor();
  await page.getByLabel('Label').fill('nothing');
  await page.getByLabel('Label').press('Enter');
  await page.getByText('No session matches.').waitFor();
  await page.getByLabel('Label').fill('Checkout in German');
  await page.getByLabel('Label').press('Enter');
  await page.getByRole('link', { name: 'Checkout in German' }).waitFor();
  // A link shows the same list.
  await page.reload();
  await page.getByRole('link', { name: 'Checkout in German' }).waitFor();
  assert.equal(await page.getByLabel('Status').inputValue(), 'destroyed');
}

/** The middle of an element of the page on the screen, in CSS pixels of the dashboard. */
async function pointOf(tab, [x, y]) {
  const canvas = tab.page.locator('canvas');
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  const [width, height] = await canvas.evaluate(({ width, height }) => [width / 2, height / 2]);
  return [box.x + (x / width) * box.width, box.y + (y / height) * box.height];
}

/** Drives a session by pointer, keyboard, a picked element and a form. */
export async function drive({ tab, site }) {
  if (!hasBrowsers) return;
  const { page } = tab;
  const owner = await person();
  const { id } = await owner.api('POST', '/v1/sessions', { label: 'Driven', record: 'steps' });
  await owner.api('POST', `/v1/sessions/${id}/navigate`, { url: `${site.url}/drive` });
  await tab.enter(owner, `/sessions/${id}`);
  await page.getByRole('application').waitFor({ timeout: 30_000 });
  await screen(tab);
  // Operations wait until a second after the person's last touch.
  const value = (script) => owner.api('POST', `/v1/sessions/${id}/evaluate`, { script }).then((done) => done.value, () => null);
  await page.mouse.click(...(await pointOf(tab, [170, 110])));
  await page.waitForTimeout(500);
  await page.keyboard.type('Ada');
  await page.keyboard.press('Backspace');
  await page.keyboard.type('a!');
  await until('the typed text', async () => (await value("return document.querySelector('#name').value")) === 'Ada!');
  await page.mouse.click(...(await pointOf(tab, [170, 210])));
  await until('the tap', async () => (await value('return document.title')) === 'Paid Ada!');
  // By the keyboard alone: the screen takes the keys, and Tab leaves it.
  await page.keyboard.press('Tab');
  assert.notEqual(await page.evaluate(() => document.activeElement.localName), 'canvas');

  await page.getByRole('button', { name: 'Pick an element' }).click();
  await page.mouse.click(...(await pointOf(tab, [170, 110])));
  await page.getByLabel('Operation').selectOption('fill');
  await until('the picked element', async () => (await page.getByLabel('CSS selector').inputValue()) === '#name');
  await page.getByLabel('Text', { exact: true }).fill('Grace');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.locator('pre[role=status]').waitFor();
  await until('the filled text', async () => (await value("return document.querySelector('#name').value")) === 'Grace');
  await page.getByLabel('Operation').selectOption('capture');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('img', { name: 'The screenshot' }).waitFor();
  await end(tab);
}

async function until(what, check, limit = 15_000) {
  for (const end = Date.now() + limit; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 100))) if (await check()) return;
  throw new Error(`not within ${limit} ms: ${what}`);
}

/** An agent that asks before it pays, is taken over, and becomes a recipe. */
export async function agents({ tab, site, look }) {
  const { page } = tab;
  await tab.enter(await person(), '/agents');
  await page.getByRole('button', { name: 'New agent' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Label').fill('Buyer');
  await dialog.getByRole('button', { name: 'Create agent' }).click();
  await page.getByRole('heading', { level: 1, name: 'Buyer' }).waitFor();
  await screen(tab);
  const message = page.getByLabel('Message', { exact: true });
  const say = async (text) => {
    await message.fill(text);
    await message.press('Enter');
  };
  await say(`open ${hasBrowsers ? `${site.url}/drive` : 'https://example.com/'}`);
  await page.getByText(/done/).first().waitFor({ timeout: 60_000 });
  await say("tap 'Pay now'");
  const card = page.getByRole('region', { name: 'Approval' });
  await card.waitFor({ timeout: 30_000 });
  await tab.check('agent-approval', look);
  await page.locator('nav a[href$="/approvals"] .badge').getByText('1').waitFor({ state: 'attached' });
  // Declined in the conversation.
  await card.getByRole('button', { name: 'Decline' }).click();
  await page.getByText('The step was declined, so the plan has ended.').waitFor();
  await card.waitFor({ state: 'detached' });
  await page.locator('nav a[href$="/approvals"] .badge').waitFor({ state: 'detached' });
  // Declined and approved in the inbox.
  await say("tap 'Pay now'");
  await card.waitFor({ timeout: 30_000 });
  await tab.follow(/^Approvals/);
  await card.getByRole('button', { name: 'Decline' }).click();
  await page.getByText('Declined. The plan of the agent has ended.').waitFor();
  await page.getByRole('link', { name: 'Open the agent' }).click();
  await say("tap 'Pay now'");
  await card.waitFor({ timeout: 30_000 });
  await tab.follow(/^Approvals/);
  await card.getByRole('button', { name: 'Approve' }).click();
  await page.locator('.notice.good').waitFor({ timeout: 30_000 });
  await page.getByRole('link', { name: 'Open the agent' }).click();
  await page.getByText('Approved.').waitFor();

  await page.getByRole('button', { name: 'Take over' }).click({ timeout: 30_000 });
  await page.getByText('A person drives. Hand back to send messages.').waitFor();
  await page.getByText('You drive').waitFor();
  await page.getByRole('button', { name: 'Hand back' }).click();
  await page.getByText('Enter sends').waitFor();

  await page.getByRole('button', { name: 'Save as a recipe' }).click();
  await dialog.getByLabel('Name').fill('Pay');
  await dialog.getByRole('button', { name: 'Save recipe' }).click();
  await page.getByRole('heading', { level: 1, name: 'Pay' }).waitFor();
  await page.getByRole('tab', { name: 'Python' }).click();
  await page.getByText('import').first().waitFor();
  await tab.check('recipe', look);
  await page.getByRole('link', { name: 'Its agent' }).click();
  await page.getByRole('button', { name: 'Close', exact: true }).click();
  await dialog.getByRole('button', { name: 'Close the agent' }).click();
  await page.getByText('The agent was closed').waitFor();
  // The page may read it a last time while it goes.
  tab.expected.add(404);
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('There are no agents yet').waitFor();
}
