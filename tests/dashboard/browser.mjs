// Chromium with the rules that hold on every page: no error on the console, no violation of the policy, no serious finding of axe.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { mkdir } from 'node:fs/promises';
import { chromium } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const SIZES = [
  { name: 'wide', width: 1280, height: 800 },
  { name: 'phone', width: 390, height: 844 },
];

const TIMEOUT_MS = 15_000;

export const env = {
  url: process.env.DASHBOARD_URL,
  email: process.env.DASHBOARD_EMAIL,
  password: process.env.DASHBOARD_PASSWORD,
  pictures: process.env.DASHBOARD_PICTURES,
};

/** Runs `act` with a browser and closes it. */
export async function withBrowser(act) {
  const args = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'];
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium-headless-shell', args });
  try {
    await act(browser);
  } finally {
    await browser.close();
  }
}

/** A page whose errors fail the test when {@link Guarded.check} is called. */
export class Guarded {
  constructor(page) {
    this.page = page;
    this.errors = [];
    /** Status codes that a test causes on purpose: Chromium logs each failed response. */
    this.expected = new Set();
    /** True while a test interrupts the connection. */
    this.isAway = false;
    page.on('dialog', (dialog) => {
      this.errors.push(`a dialog of the browser: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('pageerror', (error) => this.errors.push(`uncaught: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() !== 'error') return;
      const status = /(?:status of|Unexpected response code:) (\d+)/.exec(message.text())?.[1];
      if (status && this.expected.has(Number(status))) return;
      if (this.isAway && message.text().includes('net::ERR')) return;
      this.errors.push(`console: ${message.text()} (${message.location().url})`);
    });
  }

  static async open(browser, { size = SIZES[0], theme = 'light', context } = {}) {
    const permissions = ['clipboard-read', 'clipboard-write'];
    context ??= await browser.newContext({ viewport: size, colorScheme: theme, reducedMotion: 'reduce', locale: 'en-GB', permissions });
    const page = await context.newPage();
    page.setDefaultTimeout(TIMEOUT_MS);
    return new this(page);
  }

  /** Opens the dashboard as a person who has signed in in this tab before. */
  async enter({ session }, path = '/') {
    // The application removes it when the person signs out.
    await this.page.addInitScript((stored) => {
      if (sessionStorage.getItem('entered')) return;
      sessionStorage.setItem('entered', 'yes');
      sessionStorage.setItem('kitfleet.session', stored);
    }, JSON.stringify(session));
    await this.goto(path);
  }

  /** Opens the menu on a phone, and follows a link of the navigation. */
  async follow(title) {
    const menu = this.page.getByRole('button', { name: 'Menu', exact: true });
    if (await menu.isVisible()) await menu.click();
    await this.page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: title, exact: true }).click();
    await this.settled();
  }

  /** Text that the page has copied last. */
  async copied() {
    return this.page.evaluate(() => navigator.clipboard.readText());
  }

  async signIn() {
    const { page } = this;
    await page.goto(`${env.url}/app/`);
    await page.getByLabel('E-mail').fill(env.email);
    await page.getByLabel('Password').fill(env.password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  }

  async goto(path) {
    await this.page.goto(`${env.url}/app${path}`);
    await this.settled();
  }

  /** Nothing loads any more. */
  async settled() {
    const { page } = this;
    await page.locator('main h1').first().waitFor();
    await page.waitForFunction(() => ![...document.querySelectorAll('main [role=status]')].some((said) => said.textContent === 'Loading…'));
  }

  /** Takes a picture, and asserts what must hold on every page. */
  async check(name, { size, theme }) {
    const { page } = this;
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    await this.picture(`${name}-${size.name}-${theme}`);
    const where = `${name} (${size.name}, ${theme})`;
    const found = serious.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map(({ html }) => html).join(' | ')}`);
    if (found.length) throw new Error(`${where}: axe\n${found.join('\n')}`);
    if (overflow > 0) throw new Error(`${where}: the page is ${overflow} px too wide`);
    this.assertQuiet(where);
  }

  /** Keeps a picture for people to look at. */
  async picture(name) {
    if (!env.pictures) return;
    await mkdir(env.pictures, { recursive: true });
    await this.page.screenshot({ path: `${env.pictures}/${name}.png` });
  }

  assertQuiet(where) {
    if (this.errors.length) throw new Error(`${where}:\n${this.errors.join('\n')}`);
  }

  async close() {
    await this.page.context().close();
  }
}
