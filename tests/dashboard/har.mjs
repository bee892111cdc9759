// Checks a HAR file: har.mjs FILE URL
// Fails if the file does not follow the schema of HAR 1.2, or if Chromium cannot load the recorded document from it.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { withBrowser } from './browser.mjs';

const [, , file, url] = process.argv;
// The package has no types of modules.
const { har: validate } = createRequire(import.meta.url)('har-validator');
const har = JSON.parse(readFileSync(file, 'utf8'));
await validate(har).catch(({ errors }) => {
  console.error(JSON.stringify(errors, null, 1));
  process.exit(1);
});

const recorded = har.log.entries.find((entry) => entry.request.url === url);
if (!recorded) {
  console.error(`no entry of ${url}`);
  process.exit(1);
}
await withBrowser(async (browser) => {
  const page = await browser.newPage();
  await page.routeFromHAR(file, { notFound: 'abort' });
  const response = await page.goto(url);
  const type = recorded.response.headers.find(({ name }) => name.toLowerCase() === 'content-type')?.value;
  if (response.status() !== recorded.response.status || (await response.headerValue('content-type')) !== type) {
    console.error(`${response.status()} ${JSON.stringify(await response.allHeaders())} is not the recorded response`);
    process.exitCode = 1;
  }
  const others = await page.goto('http://127.0.0.1:1/not-recorded').catch((error) => error);
  if (!(others instanceof Error)) {
    console.error('a request was not answered from the file');
    process.exitCode = 1;
  }
});
