// Runs the flows, each in a wide light window and on a dark phone: flows.mjs [NAME…]

import { Guarded, SIZES, withBrowser } from './browser.mjs';
import * as account from './flows/account.mjs';
import * as browsers from './flows/browsers.mjs';
import * as connect from './flows/connect.mjs';
import * as hostile from './flows/hostile.mjs';
import * as keyboard from './flows/keyboard.mjs';
import * as rights from './flows/rights.mjs';
import * as trouble from './flows/trouble.mjs';
import { serveSite } from './world.mjs';

const FLOWS = Object.entries({ ...browsers, ...connect, ...account, ...rights, ...trouble, ...hostile, ...keyboard });
const LOOKS = [
  { size: SIZES[0], theme: 'light', isFirst: true },
  { size: SIZES[1], theme: 'dark', isFirst: false },
];

const wanted = process.argv.slice(2);
const site = await serveSite();
const failed = [];

await withBrowser(async (browser) => {
  for (const [name, flow] of FLOWS) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    for (const look of LOOKS) {
      const where = `${name} (${look.size.name}, ${look.theme})`;
      const started = Date.now();
      const tab = await Guarded.open(browser, look);
      try {
        await flow({ tab, browser, look, site });
        tab.assertQuiet(where);
        console.log(`${where}: ${Date.now() - started} ms`);
      } catch (error) {
        await tab.picture(`failed-${name}-${look.size.name}`);
        failed.push(where);
        console.error(`${where}: ${error.stack}\n${tab.errors.join('\n')}`);
      }
      await tab.close();
    }
  }
});
site.close();
if (failed.length > 0) {
  console.error(`failed: ${failed.join(', ')}`);
  process.exit(1);
}
