// Compares the picture of a session in the dashboard with the service's page of a live view, on an animated page, by turns: live.mjs [ROUNDS]
//
// Prints the pictures a second, and the time from a change of the remote page until it is drawn.

import { env, Guarded, withBrowser } from './browser.mjs';
import { serveSite, signedIn } from './world.mjs';

const ROUNDS = Number(process.argv[2] ?? 3);
const MEASURED_MS = 10_000;
const WARM_UP_MS = 3_000;
/** The first channels of the colours of /animated, in their order. A JPEG changes them a little. */
const COLOURS = [[0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]];

/** Records each drawn picture and the colour of the mark after it. */
function record(colours) {
  globalThis.drawn = [];
  const { drawImage } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.drawImage = function draw(...args) {
    drawImage.apply(this, args);
    const [red, green, blue] = this.getImageData(80, 80, 1, 1).data;
    const distance = (colour) => Math.hypot(colour[0] - red, colour[1] - green, colour[2] - blue);
    const nearest = colours.reduce((best, colour, index) => (distance(colour) < distance(colours[best]) ? index : best), 0);
    globalThis.drawn.push({ at: performance.timeOrigin + performance.now(), colour: nearest });
  };
}

const quantile = (values, share) => values.toSorted((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * share))];

/** Times from the changes of the page to the first picture that shows them. */
function delays(changes, drawn) {
  const found = [];
  for (const [index, { at, colour }] of changes.entries()) {
    const next = changes[index + 1]?.at ?? Infinity;
    const shown = drawn.find((picture) => picture.at >= at && picture.colour === colour);
    // The change was replaced before a picture showed it, or lies outside of the measured time.
    if (shown && shown.at < next + 400) found.push(shown.at - at);
  }
  return found;
}

const owner = await signedIn(env.email);
const site = await serveSite();
const session = await owner.api('POST', '/v1/sessions', { label: 'Animated' });
await owner.api('POST', `/v1/sessions/${session.id}/navigate`, { url: `${site.url}/animated` });

const VIEWERS = {
  dashboard: (tab) => tab.page.goto(`${env.url}/app/sessions/${session.id}`),
  page: async (tab) => {
    const { page_url: address } = await owner.api('POST', `/v1/sessions/${session.id}/live-tickets`, { role: 'controller' });
    const { pathname, hash } = new URL(address);
    await tab.page.goto(env.url + pathname + hash);
  },
};

const results = { dashboard: [], page: [] };
await withBrowser(async (browser) => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const names = round % 2 === 0 ? ['dashboard', 'page'] : ['page', 'dashboard'];
    for (const name of names) {
      const tab = await Guarded.open(browser);
      await tab.page.addInitScript(record, COLOURS);
      await tab.page.addInitScript((stored) => sessionStorage.setItem('kitfleet.session', stored), JSON.stringify(owner.session));
      await VIEWERS[name](tab);
      await tab.page.waitForFunction(() => globalThis.drawn?.length > 0);
      await tab.page.waitForTimeout(WARM_UP_MS);
      await tab.page.evaluate(() => { globalThis.drawn = []; });
      const begun = Date.now();
      await tab.page.waitForTimeout(MEASURED_MS);
      const drawn = await tab.page.evaluate(() => globalThis.drawn);
      const ended = Date.now();
      const { value: changes } = await owner.api('POST', `/v1/sessions/${session.id}/evaluate`, { script: 'return window.changes' });
      const measured = changes.filter(({ at }) => at >= begun && at <= ended - 500);
      const found = delays(measured, drawn);
      results[name].push({ rate: (drawn.length * 1_000) / (ended - begun), found });
      console.log(`${name}: ${((drawn.length * 1_000) / (ended - begun)).toFixed(1)} pictures a second, ${found.length} of ${measured.length} changes, median ${quantile(found, 0.5)?.toFixed(0)} ms`);
      await tab.close();
    }
  }
});
for (const [name, rounds] of Object.entries(results)) {
  const all = rounds.flatMap(({ found }) => found);
  const rates = rounds.map(({ rate }) => rate);
  console.log(`${name}: ${quantile(rates, 0.5).toFixed(1)} pictures a second; change to picture ${quantile(all, 0.5).toFixed(0)} ms (median), ${quantile(all, 0.95).toFixed(0)} ms (95 %)`);
}
await owner.api('DELETE', `/v1/sessions/${session.id}`);
site.close();
