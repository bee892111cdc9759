// Every page in both widths, in the theme DASHBOARD_THEME.

import { Guarded, SIZES, withBrowser } from './browser.mjs';

/** Pages beside the dashboard, by the name of their picture. */
const OTHERS = {
  activate: '/activate?user_code=7KQ2-M9XD',
  'magic-link': '/magic-link?token=unknown',
  'reset-password': '/reset-password?token=unknown',
  invitation: '/team/accept?token=unknown',
  live: '/live/ses_unknown',
  status: '/status',
  errors: '/errors',
  grammar: '/docs/agent-grammar',
};
const PAGES = process.env.DASHBOARD_PAGES.split(' ').map((entry) => entry.split('='));

await withBrowser(async (browser) => {
  const theme = process.env.DASHBOARD_THEME;
  for (const size of SIZES) {
    const tab = await Guarded.open(browser, { size, theme });
    await tab.page.goto(`${process.env.DASHBOARD_URL}/app/`);
    await tab.page.getByLabel('E-mail').waitFor();
    await tab.check('sign-in', { size, theme });
    for (const [name, path] of Object.entries(OTHERS)) {
      await tab.page.goto(process.env.DASHBOARD_URL + path);
      await tab.page.locator('h1').first().waitFor();
      await tab.check(`other-${name}`, { size, theme });
    }
    await tab.signIn();
    for (const [name, path] of PAGES) {
      await tab.goto(path);
      await tab.check(name, { size, theme });
    }
    await tab.close();
  }
});
