// Opens a trace in Playwright's unmodified viewer: trace.mjs PACKAGE ZIP PICTURE TEXT…
// Fails if the viewer reports an error, or does not show each text.

import { createReadStream, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, extname, join, normalize } from 'node:path';
import { withBrowser } from './browser.mjs';

const [, , name, zip, picture, ...texts] = process.argv;
const folder = join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), 'lib/vite/traceViewer');
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

const server = createServer((request, response) => {
  const path = normalize(new URL(request.url, 'http://localhost').pathname);
  const file = path === '/trace.zip' ? zip : join(folder, path.endsWith('/') ? `${path}index.html` : path);
  if (!existsSync(file)) return response.writeHead(404).end();
  response.writeHead(200, { 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream' });
  createReadStream(file).pipe(response);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const base = `http://127.0.0.1:${server.address().port}`;

const errors = [];
await withBrowser(async (browser) => {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.on('pageerror', (error) => errors.push(`uncaught: ${error.message}`));
  page.on('console', (message) => message.type() === 'error' && !message.location().url.endsWith('favicon.ico') && errors.push(`console: ${message.text()} (${message.location().url})`));
  await page.goto(`${base}/?trace=${base}/trace.zip`);
  for (const text of texts) {
    await page.getByText(text).first().waitFor({ timeout: 20_000 }).catch(() => errors.push(`the viewer does not show "${text}"`));
  }
  const [first] = texts;
  if (first && errors.length === 0) await page.getByText(first).first().click();
  await page.waitForTimeout(500);
  await page.screenshot({ path: picture });
});
server.close();
if (errors.length) {
  console.error(errors.join('\n'));
  process.exit(1);
}
