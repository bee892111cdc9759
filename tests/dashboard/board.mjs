// The staff board, with its credential.

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

  /** Fills in the reason of the open dialog, which must say what it will do, and confirms. */
  async because(reason, verb) {
    const dialog = this.page.getByRole('dialog');
    await dialog.getByRole('heading', { name: 'What this does' }).waitFor();
    const button = dialog.getByRole('button', { name: verb, exact: true });
    if (await button.isEnabled()) throw new Error(`${verb}: a change needs a reason`);
    await dialog.getByLabel('Reason').fill(reason);
    await button.click();
    await dialog.waitFor({ state: 'detached' });
  }
}
