// The recording of a customer's session, where staff may read it and where they may not.

import { readFile } from 'node:fs/promises';
import { Board } from './board.mjs';
import { withBrowser } from './browser.mjs';

const { WATCH_SESSION: session, WATCH_ACCOUNT: account, WATCH_MAY: may } = process.env;
const REASON = 'watch: the customer asked <b>why</b>';

await withBrowser(async (browser) => {
  const tab = await Board.open(browser);
  const { page } = tab;
  await tab.enter();
  await tab.goto(`/sessions/${session}`);
  await tab.sees(page.getByRole('heading', { name: 'Recording' }), 'the recording of the session');
  await tab.sees(page.locator('dl > div').filter({ hasText: 'Stored' }), 'the size of the recording');
  await tab.sees(page.getByText('The live picture is for members of the account only.'), 'why there is no live picture');
  const read = page.getByRole('button', { name: 'Read the recording' });
  if (may === 'true') {
    await read.click();
    const dialog = page.getByRole('dialog');
    await tab.sees(dialog.getByText('sees in the audit log that staff read it'), 'that the customer sees the read');
    const downloaded = page.waitForEvent('download');
    await tab.because(REASON, 'Read the recording');
    const download = await downloaded;
    if (download.suggestedFilename() !== `${session}.zip`) throw new Error(`the trace has the name ${download.suggestedFilename()}`);
    const file = await readFile(await download.path());
    if (file.subarray(0, 2).toString() !== 'PK') throw new Error('the trace is no ZIP file');
    await tab.goto(`/accounts/${account}`);
    await page.getByRole('tab', { name: 'Log, notes and refunds' }).click();
    await tab.sees(page.getByRole('row').filter({ hasText: 'session.recording_read' }).filter({ hasText: REASON }), 'the read in the log of the account');
  } else {
    await tab.sees(page.getByText('the setting staff.may_watch is off'), 'why staff may not read the recording');
    if (await read.count()) throw new Error('the board offers a read that the service refuses');
  }
  tab.assertQuiet('the recording');
  await tab.close();
});
