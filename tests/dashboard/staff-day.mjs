// A bad day, handled on the board alone: a worker was killed with a session, and an endpoint was down.

import { Board } from './board.mjs';
import { withBrowser } from './browser.mjs';

const { DAY_SESSION: session, DAY_ENDPOINT: endpoint, DAY_ACCOUNT: account } = process.env;

await withBrowser(async (browser) => {
  const tab = await Board.open(browser);
  const { page } = tab;
  await tab.enter();

  // The dead worker.
  await tab.goto('/?all=true');
  await tab.sees(page.getByRole('row').filter({ hasText: /lost|silent/ }), 'the worker that was killed as lost or silent', 40_000);
  await tab.picture('workers');

  // Its session is stuck with an operation whose outcome is unknown.
  await tab.goto('/sessions?status=busy');
  await page.getByRole('link', { name: 'stuck' }).click();
  await tab.sees(page.getByText('It waits for its worker'), 'what the session waits for');
  await tab.sees(page.getByText('Its worker died while it ran.'), 'why the operation has no outcome', 40_000);
  await tab.picture('session');
  await page.getByRole('button', { name: 'End the session' }).click();
  await tab.because('bad day: its worker died', 'End the session');
  await page.getByText('It has ended.').waitFor();
  if (!page.url().includes(session)) throw new Error('another session was ended');

  // Dead letters: one, a selection, and all of the endpoint.
  await tab.goto(`/dead-letters?endpoint_id=${endpoint}`);
  const boxes = page.getByRole('checkbox', { name: /^Select wdl_/ });
  const first = await boxes.first().getAttribute('aria-label');
  await page.getByRole('button', { name: /^wdl_/ }).first().click();
  await page.getByRole('dialog').getByRole('button', { name: 'Requeue' }).click();
  await tab.because('bad day: the endpoint is back', 'Requeue');
  await tab.sees(page.getByText('1 delivery was requeued.'), 'that a delivery was requeued');
  await page.getByRole('checkbox', { name: first, exact: true }).waitFor({ state: 'detached' });
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await page.getByRole('button', { name: 'Requeue the selected (2)' }).click();
  await tab.because('bad day: the endpoint is back', 'Requeue');
  await page.getByText('2 deliveries were requeued.').waitFor();
  await page.getByRole('button', { name: 'Requeue all that match' }).click();
  await tab.because('bad day: the endpoint is back', 'Requeue');
  await tab.sees(page.getByText('All are requeued'), 'the end of the requeue', 60_000);
  await tab.sees(page.getByText(/What came of them: \d+ delivered/), 'what came of the requeued deliveries');
  await tab.picture('dead-letters');

  // Customers are informed.
  await tab.goto('/incidents');
  await page.getByRole('button', { name: 'Post an incident' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Title').fill('Sessions of one worker ended');
  await dialog.getByLabel('Message').fill('We are looking into it.');
  await dialog.getByLabel('workers').check();
  await tab.sees(dialog.getByText('[Kitfleet] Incident: Sessions of one worker ended'), 'a preview of the mail');
  await tab.picture('incidents');
  await tab.because('bad day: a worker died', 'Post');
  await page.getByRole('heading', { name: 'Sessions of one worker ended' }).waitFor();
  await page.getByRole('button', { name: 'Add an update' }).click();
  await dialog.getByLabel('Status').selectOption('monitoring');
  await dialog.getByLabel('Message').fill('All sessions work again.');
  await tab.because('bad day: a worker died', 'Add');
  await page.getByText('All sessions work again.').waitFor();
  await page.getByRole('button', { name: 'Resolve' }).click();
  await tab.because('bad day: it is over', 'Resolve');
  await page.getByRole('article').getByText('resolved').first().waitFor();

  // The other worker is drained and returned.
  await tab.goto('/');
  await page.getByRole('row').filter({ hasText: 'active', hasNotText: 'silent' }).getByRole('link').first().click();
  await page.getByRole('heading', { name: 'If this worker went away now' }).waitFor();
  await page.getByRole('button', { name: 'Drain', exact: true }).click();
  await tab.because('bad day: to be looked at', 'Drain');
  await tab.sees(page.getByRole('heading', { name: 'Drain', exact: true }), 'the progress of the drain');
  await tab.picture('worker');
  await page.getByRole('button', { name: 'Return to service' }).click();
  await tab.because('bad day: it is fine', 'Return to service');
  await page.getByRole('button', { name: 'Drain', exact: true }).waitFor();

  // An account is suspended after a look at what ends, and reactivated.
  await tab.goto(`/accounts/${account}`);
  await page.getByRole('button', { name: 'Suspend' }).click();
  await tab.sees(page.getByRole('dialog').getByText(/live sessions? of the account ends? now/), 'what a suspension ends');
  await tab.picture('account');
  await tab.because('bad day: it looked like abuse', 'Suspend');
  await page.getByRole('button', { name: 'Reactivate' }).click();
  await tab.because('bad day: it was not', 'Reactivate');
  await page.getByRole('button', { name: 'Suspend' }).waitFor();
  // Pictures of the day.
  for (const name of ['capacity', 'queues']) {
    await tab.goto(`/${name}`);
    await tab.picture(name);
  }
  tab.assertQuiet('the day');
  await tab.close();
});
