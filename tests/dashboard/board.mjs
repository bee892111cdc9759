// The staff board, with its credential.

import { mkdir } from 'node:fs/promises';
import { env, Guarded } from './browser.mjs';

export class Board extends Guarded {
  async enter() {
    const { page } = this;
    await page.goto(`${env.url}/staff/`);
    await page.getByLabel('Credential of staff').fill(process.env.STAFF_TOKEN);
    await page.getByRole('button', { name: 'Open the board' }).click();
    await page.getByRole('heading', { level: 1, name: 'Workers' }).waitFor();
  }

  async goto(path) {
    await this.page.goto(`${env.url}/staff${path}`);
    await this.settled();
  }

  /** A picture of docs/images/staff. */
  async picture(name) {
    if (!env.pictures) return;
    await mkdir(env.pictures, { recursive: true });
    await this.page.screenshot({ path: `${env.pictures}/${name}.png` });
  }

  /** Texts of customers, pages and workers are shown as text, and do not turn its direction. */
  async assertPlain(name) {
    const { images, turned } = await this.page.evaluate(() => ({
      images: document.querySelectorAll('main img, dialog img').length,
      turned: document.body.innerText.includes('\u202e'),
    }));
    if (images) throw new Error(`${name}: a text of a customer is shown as markup`);
    if (turned) throw new Error(`${name}: a text of a customer can change the direction of the page`);
  }

  /** Waits for an element. A failure names the expectation. */
  async sees(locator, what, timeout = 15_000) {
    await locator.first().waitFor({ timeout }).catch(() => {
      throw new Error(`the board does not show ${what} within ${timeout / 1_000} s at ${this.page.url()}`);
    });
  }

  /** Fills in the reason of the open dialog, which must list its effects, and presses the button. */
  async confirm(reason, verb) {
    const dialog = this.page.getByRole('dialog');
    await dialog.getByRole('heading', { name: 'What this does' }).waitFor();
    if ((await dialog.getByRole('listitem').count()) === 0) throw new Error(`${verb}: the dialog does not say what it will do`);
    const button = dialog.getByRole('button', { name: verb, exact: true });
    if (await button.isEnabled()) throw new Error(`${verb}: a change needs a reason`);
    await dialog.getByLabel('Reason').fill(reason);
    await button.click();
    return dialog;
  }

  /** As {@link Board.confirm}, for a change that succeeds. */
  async because(reason, verb) {
    const dialog = await this.confirm(reason, verb);
    await dialog.waitFor({ state: 'detached' }).catch(async () => {
      throw new Error(`${verb}: the dialog stays open: ${await dialog.innerText()}`);
    });
  }
}
