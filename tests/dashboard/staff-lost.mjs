// A worker that is killed while it is drained. The test kills it when this script prints that the drain has begun.

import { Board } from './board.mjs';
import { withBrowser } from './browser.mjs';

const { LOST_WORKER: worker } = process.env;

await withBrowser(async (browser) => {
  const tab = await Board.open(browser);
  const { page } = tab;
  await tab.enter();
  await tab.goto(`/workers/${worker}`);
  await page.getByRole('button', { name: 'Drain', exact: true }).click();
  await tab.because('lost: to be looked at', 'Drain');
  await tab.sees(page.getByText('which are listed below'), 'what the drain waits for');
  await tab.sees(page.getByText(/This worker is silent|This worker is lost|cannot be drained/), 'that the worker has disappeared', 60_000);
  await tab.sees(page.getByText('A worker that has been lost cannot be drained.'), 'that a lost worker cannot be drained', 60_000);
  if (await page.getByRole('button', { name: 'Return to service' }).count()) throw new Error('a lost worker can be returned to service');
  tab.assertQuiet('the lost worker');
  await tab.close();
});
