// Who is signed in. The token stays in this tab's sessionStorage and never becomes a cookie.

import { openApi, type Schemas, take, useCredentials } from './api';

export type SignInResult = Schemas['SignInResult'];

/** The pages of mailed links keep their sign-in under the same name. */
const STORED = 'kitfleet.session';
const STORED_ACCOUNT = 'kitfleet.account';

/** A question to the person that other requests wait for. */
interface Question {
  kind: 'sign-in' | 'step-up';
  answered(): void;
  givenUp(): void;
}

class Session {
  current = $state<Schemas['WebSession'] | null>(stored());
  me = $state<Schemas['OwnAccount'] | null>(null);
  /** Account of a team that the person works in, if it is not their own. */
  account = $state<string | null>(sessionStorage.getItem(STORED_ACCOUNT));
  question = $state<Question | null>(null);
  #asked: Promise<void> | null = null;

  /** Role of the person on the account that is shown. */
  get role(): 'owner' | Schemas['TeamRole'] {
    if (!this.account || this.account === this.current?.account_id) return 'owner';
    return this.owner?.role ?? 'member';
  }

  /** Owner of the account that the person works in, if it is not their own. */
  get owner(): Schemas['TeamOwner'] | null {
    return this.me?.teams.find(({ owner_account_id }) => owner_account_id === this.account) ?? null;
  }

  /** Reason for which the person may not change the account that is shown, or null. */
  get refusal(): string | null {
    return this.role === 'member' ? 'Members of a team can only read. An admin or the owner can change this.' : null;
  }

  start(session: Schemas['WebSession']): void {
    this.current = session;
    sessionStorage.setItem(STORED, JSON.stringify(session));
  }

  forget(): void {
    this.current = null;
    this.me = null;
    this.chooseAccount(null);
    sessionStorage.removeItem(STORED);
  }

  chooseAccount(account: string | null): void {
    this.account = account;
    if (account) sessionStorage.setItem(STORED_ACCOUNT, account);
    else sessionStorage.removeItem(STORED_ACCOUNT);
  }

  async signOut(): Promise<void> {
    const token = this.current?.token;
    this.forget();
    if (token) await take(openApi.POST('/v1/auth/logout', { body: { token } })).catch(() => null);
  }

  /** Several requests that fail together ask once. */
  ask(kind: Question['kind']): Promise<void> {
    this.#asked ??= new Promise<void>((resolve, reject) => {
      const end = (settle: () => void) => () => {
        this.question = null;
        this.#asked = null;
        settle();
      };
      this.question = { kind, answered: end(resolve), givenUp: end(() => reject(new Error('cancelled'))) };
    });
    return this.#asked;
  }
}

function stored(): Schemas['WebSession'] | null {
  try {
    return JSON.parse(sessionStorage.getItem(STORED) ?? 'null') as Schemas['WebSession'] | null;
  } catch {
    return null;
  }
}

export const session = new Session();

useCredentials({
  token: () => session.current?.token ?? null,
  account: () => session.account,
  renew: (refused) => {
    // Another request has signed in meanwhile.
    if (session.current && session.current.token !== refused) return Promise.resolve();
    return session.ask('sign-in');
  },
  stepUp: () => session.ask('step-up'),
});
