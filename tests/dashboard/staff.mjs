// Every page of the staff board in both widths, in one theme.

import { Board } from './board.mjs';
import { env, SIZES, withBrowser } from './browser.mjs';

const theme = process.env.STAFF_THEME;
const PAGES = process.env.STAFF_PAGES.split(' ').map((entry) => entry.split('='));

await withBrowser(async (browser) => {
  for (const size of SIZES) {
    const tab = await Board.open(browser, { size, theme });
    await tab.page.goto(`${env.url}/staff/`);
    await tab.page.getByLabel('Credential of staff').waitFor();
    await tab.check('credential', { size, theme });
    await tab.enter();
    // On a phone the menu has every page.
    const menu = tab.page.getByRole('button', { name: 'Menu', exact: true });
    if (await menu.isVisible()) await menu.click();
    await tab.sees(tab.page.getByRole('navigation').getByRole('link', { name: 'Incidents' }), 'the last link of the navigation');
    await tab.check('navigation', { size, theme });
    for (const [name, path] of PAGES) {
      await tab.goto(path);
      await tab.check(name, { size, theme });
      await tab.assertPlain(name);
    }
    // Dialogs, which list the effects of a change.
    const path = Object.fromEntries(PAGES);
    const dialog = tab.page.getByRole('dialog');
    for (const [name, page, button] of [['drain', 'worker', 'Drain'], ['end', 'session', 'End the session'], ['suspend', 'account', 'Suspend'], ['limits', 'account', 'Limits'], ['incident', 'incidents', 'Post an incident'], ['dead-letter', 'dead-letters', /^wdl_/], ['job', 'queues', /^(01|int_|wdl_)/]]) {
      await tab.goto(path[page]);
      await tab.page.getByRole('button', { name: button, exact: typeof button === 'string' }).first().click();
      await dialog.waitFor();
      if (name === 'incident') {
        await dialog.getByLabel('Title').fill('Mails are late');
        await dialog.getByLabel('Message').fill('We look into it.');
        await tab.sees(dialog.getByText('[Kitfleet] Incident: Mails are late'), 'a preview of the mail');
      }
      await tab.check(`dialog-${name}`, { size, theme });
    }
    await tab.close();
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
  tab.assertQuiet('the form of the credential');
  await tab.close();
});
