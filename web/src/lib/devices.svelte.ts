// Names of the devices that sessions can be.

import { api, take } from './api';

class Devices {
  #names = $state.raw<Record<string, string>>({});
  #isAsked = false;

  /** "iPhone 16, iOS 18". The ID until the names are loaded, and for a device that is not offered any more. */
  nameOf(id: string): string {
    if (!this.#isAsked) {
      this.#isAsked = true;
      void this.#load();
    }
    return this.#names[id] ?? id;
  }

  async #load(): Promise<void> {
    try {
      const { data } = await take(api.GET('/v1/archetypes'));
      this.#names = Object.fromEntries(data.map(({ id, display_label }) => [id, display_label]));
    } catch {
      this.#isAsked = false;
    }
  }
}

export const devices = new Devices();
