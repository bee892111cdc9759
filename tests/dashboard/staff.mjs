// Every page of the staff board in both widths and both themes.

import { Board } from './board.mjs';
import { env, SIZES, THEMES, withBrowser } from './browser.mjs';

const PAGES = process.env.STAFF_PAGES.split(' ').map((entry) => entry.split('='));

await withBrowser(async (browser) => {
  for (const size of SIZES) {
    for (const theme of THEMES) {
      const tab = await Board.open(browser, { size, theme });
      await tab.page.goto(`${env.url}/staff/`);
      await tab.page.getByLabel('Credential of staff').waitFor();
      await tab.check('staff-door', { size, theme });
      await tab.enter();
      for (const [name, path] of PAGES) {
        await tab.goto(path);
        await tab.check(`staff-${name}`, { size, theme });
      }
      await tab.close();
    }
  }

  // A credential that is none of staff's does not open the board.
  const tab = await Board.open(browser);
  tab.expected.add(401).add(404);
  await tab.page.goto(`${env.url}/staff/`);
  await tab.page.getByLabel('Credential of staff').fill('svc_staff_unknown');
  await tab.page.getByRole('button', { name: 'Open the board' }).click();
  await tab.page.getByRole('alert').getByText('not a valid credential of staff').waitFor();
  const stored = await tab.page.evaluate(() => Object.keys(sessionStorage).length + localStorage.length + document.cookie.length);
  if (stored) throw new Error('a refused credential is stored');
  tab.assertQuiet('the door');
  await tab.close();
});
