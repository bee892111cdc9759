// Pages of staff that are older than the service, two people who change the same thing, and a service that does not answer.

import { Board } from './board.mjs';
import { env, withBrowser } from './browser.mjs';

const { STALE_ACCOUNT: account, STALE_ENDPOINT: endpoint, STALE_WORKER: worker, STALE_KEY: key } = process.env;
/** A page shows a change of the service within this time. */
const WITHIN_MS = 3_000;

await withBrowser(async (browser) => {
  const [ada, grace] = [await Board.open(browser), await Board.open(browser)];
  // Chromium logs the answers that this test causes.
  for (const tab of [ada, grace]) {
    tab.expected.add(409).add(503);
    await tab.enter();
  }

  // Both open the dialog for the same account. The second one is refused, because its page is too old.
  for (const [tab, tier] of [[ada, 'api_scale'], [grace, 'api_builder']]) {
    await tab.goto(`/accounts/${account}`);
    await tab.page.getByRole('button', { name: 'Tier' }).click();
    await tab.page.getByRole('dialog').getByLabel('Tier').selectOption(tier);
  }
  await ada.because('stale: first', 'Change the tier');
  const refused = await grace.confirm('stale: second', 'Change the tier');
  await grace.sees(refused.getByRole('alert').getByText('is on the tier api_scale by now'), 'that the tier has changed meanwhile');
  await grace.sees(refused.getByText('The page was older than this state'), 'that the page was too old');
  await refused.getByRole('button', { name: 'Cancel' }).click();
  await grace.sees(grace.page.getByText('api scale'), 'the present tier after the conflict', WITHIN_MS);

  // Both requeue the same dead letter.
  for (const tab of [ada, grace]) {
    await tab.goto(`/dead-letters?endpoint_id=${endpoint}`);
    await tab.page.getByRole('checkbox', { name: /^Select wdl_/ }).first().check();
    await tab.page.getByRole('button', { name: 'Requeue the selected (1)' }).click();
  }
  await ada.because('stale: first', 'Requeue');
  const twice = await grace.confirm('stale: second', 'Requeue');
  await grace.sees(twice.getByRole('alert').getByText('not dlq'), 'that the dead letter was requeued by another person');
  await twice.getByRole('button', { name: 'Cancel' }).click();

  // A reason is not cut, and a long one is refused with its length.
  await ada.goto(`/accounts/${account}`);
  await ada.page.getByRole('button', { name: 'Note' }).click();
  const dialog = ada.page.getByRole('dialog');
  await dialog.getByLabel('Note').fill('Prefers to be called.');
  await dialog.getByLabel('Reason').fill('é'.repeat(501));
  await ada.sees(dialog.getByText('must have at most 500 characters, and has 501'), 'the bound of a reason and its length');
  if (await dialog.getByRole('button', { name: 'Store the note' }).isEnabled()) throw new Error('a reason of 501 characters can be sent');
  await dialog.getByLabel('Reason').fill('é'.repeat(500));
  await dialog.getByRole('button', { name: 'Store the note' }).click();
  await dialog.waitFor({ state: 'detached' });

  // The page of a worker follows the service.
  await ada.goto(`/workers/${worker}`);
  const slots = ada.page.locator('dl > div').filter({ hasText: 'Slots in use' }).locator('dd');
  const before = await slots.innerText();
  const created = await fetch(`${env.url}/v1/sessions`, { method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: '{}' });
  if (created.status !== 201) throw new Error(`a session could not be created: ${created.status} ${await created.text()}`);
  await ada.page.waitForFunction((text) => [...document.querySelectorAll('dl > div')].some((fact) => fact.textContent.includes('Slots in use') && !fact.textContent.includes(text)), before, { timeout: WITHIN_MS })
    .catch(() => { throw new Error(`the page of the worker still shows "${before}" ${WITHIN_MS / 1_000} s after a session was created on it`); });

  // The progress of a drain is that of the service: the same after a reload, and for another person.
  const { id: session } = await created.json();
  await ada.page.getByRole('button', { name: 'Drain', exact: true }).click();
  await ada.because('stale: first', 'Drain');
  await ada.sees(ada.page.getByText('0 of 2 sessions have ended since the drain began'), 'the progress of the drain');
  const ended = await fetch(`${env.url}/v1/sessions/${session}`, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } });
  if (!ended.ok) throw new Error(`the session could not be ended: ${ended.status} ${await ended.text()}`);
  const progress = '1 of 2 sessions has ended since the drain began';
  await ada.sees(ada.page.getByText(progress), 'the session that has ended', WITHIN_MS);
  for (const tab of [ada, grace]) {
    await tab.goto(`/workers/${worker}`);
    await tab.sees(tab.page.getByText(progress), 'the progress that was there before the page');
  }
  await ada.page.getByRole('button', { name: 'Return to service' }).click();
  await ada.because('stale: first', 'Return to service');
  await grace.sees(grace.page.getByRole('button', { name: 'Drain', exact: true }), 'that the worker is back in service', WITHIN_MS);

  // A change whose answer is lost may have been made, and the dialog says so.
  await ada.page.getByRole('button', { name: 'Drain', exact: true }).click();
  await ada.page.route('**/v1/admin/workers/*/drain', (route) => route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{"detail":"the database is not available"}' }));
  const lost = await ada.confirm('stale: second', 'Drain');
  await ada.sees(lost.getByText('It is not known whether the change was made.'), 'that the outcome is not known');
  await lost.getByRole('button', { name: 'Cancel' }).click();
  await ada.page.unroute('**/v1/admin/workers/*/drain');

  // Without answers, the board says that it is old, and keeps its figures.
  await ada.page.route('**/v1/admin/**', (route) => route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{"detail":"the database is not available"}' }));
  await ada.sees(ada.page.getByText('The service has not answered for'), 'that the service does not answer', 20_000);
  await ada.sees(slots, 'what it had before the outage');
  await ada.page.unroute('**/v1/admin/**');
  await ada.page.getByText('The service has not answered for').waitFor({ state: 'detached', timeout: 10_000 }).catch(() => {
    throw new Error('the board still says that the service does not answer');
  });

  for (const tab of [ada, grace]) {
    tab.assertQuiet('stale pages');
    await tab.close();
  }
});
