// The credential of staff. It stays in this tab's sessionStorage, apart from a customer's sign-in.

import { openApi, Refusal, take, useCredentials } from '../../lib/api';

const STORED = 'kitfleet.staff';

/** Requests that wait for another credential. */
interface Waiting {
  answered(): void;
  givenUp(): void;
}

class Credential {
  token = $state<string | null>(sessionStorage.getItem(STORED));
  waiting = $state<Waiting | null>(null);
  #asked: Promise<void> | null = null;

  /** Keeps the token if the service accepts it. */
  async use(token: string): Promise<void> {
    const headers = { Authorization: `Bearer ${token}` };
    try {
      await take(openApi.GET('/v1/admin/workers', { params: { query: { limit: 1 } }, headers }));
    } catch (error) {
      if (error instanceof Refusal && (error.status === 401 || error.status === 404)) {
        throw new Refusal('This is not a valid credential of staff.', error.status, error.code, {}, error.requestId);
      }
      throw error;
    }
    this.token = token;
    sessionStorage.setItem(STORED, token);
    this.waiting?.answered();
  }

  forget(): void {
    this.token = null;
    sessionStorage.removeItem(STORED);
    this.waiting?.givenUp();
  }

  /** Several requests that fail together ask once. */
  ask(): Promise<void> {
    this.#asked ??= new Promise<void>((resolve, reject) => {
      const end = (settle: () => void) => () => {
        this.waiting = null;
        this.#asked = null;
        settle();
      };
      this.waiting = { answered: end(resolve), givenUp: end(() => reject(new Error('cancelled'))) };
    });
    return this.#asked;
  }
}

export const credential = new Credential();

useCredentials({
  token: () => credential.token,
  account: () => null,
  renew: (refused) => {
    // Another request has asked meanwhile.
    if (credential.token && credential.token !== refused) return Promise.resolve();
    return credential.ask();
  },
  stepUp: () => Promise.reject(new Error('cancelled')),
  denied: () => {},
});
