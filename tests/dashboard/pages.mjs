// Every page in both widths, in the theme DASHBOARD_THEME.

import { Guarded, SIZES, withBrowser } from './browser.mjs';

const PAGES = process.env.DASHBOARD_PAGES.split(' ').map((entry) => entry.split('='));

await withBrowser(async (browser) => {
  const theme = process.env.DASHBOARD_THEME;
  for (const size of SIZES) {
    const tab = await Guarded.open(browser, { size, theme });
    await tab.page.goto(`${process.env.DASHBOARD_URL}/app/`);
    await tab.page.getByLabel('E-mail').waitFor();
    await tab.check('sign-in', { size, theme });
    await tab.signIn();
    for (const [name, path] of PAGES) {
      await tab.goto(path);
      await tab.check(name, { size, theme });
    }
    await tab.close();
  }
});
