// Who is signed in. The token stays in this tab's sessionStorage and never becomes a cookie.

import { api, openApi, type Schemas, take, useCredentials } from './api';

export type SignInResult = Schemas['SignInResult'];

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
  #isChecking = false;

  /** Role of the person on the account that is shown. */
  get role(): 'owner' | Schemas['TeamRole'] {
    if (!this.account || this.account === this.current?.account_id) return 'owner';
    return this.owner?.role ?? 'member';
  }

  /** Owner of the account that the person works in, if it is not their own. */
  get owner(): Schemas['TeamOwner'] | null {
    return this.me?.teams.find(({ owner_account_id }) => owner_account_id === this.account) ?? null;
  }

  /** True after the person was removed from the team whose account is shown. */
  get isRemoved(): boolean {
    return this.me !== null && this.role !== 'owner' && this.owner === null;
  }

  /** Loads who the person is, and the teams that they belong to. */
  async reload(): Promise<void> {
    this.me = await take(api.GET('/v1/account/me'));
  }

  /** A refusal can mean that the role has changed. */
  checkTeam(): void {
    if (this.#isChecking || !this.me || this.role === 'owner') return;
    this.#isChecking = true;
    // The event of the change can arrive before the refusal, and several requests are refused together.
    setTimeout(() => (this.#isChecking = false), 2_000);
    void this.reload().catch(() => null);
  }

  /** Returns true if another person was signed in before. Nothing of that person may be shown to this one. */
  start(session: Schemas['WebSession']): boolean {
    const isOther = this.current !== null && this.current.account_id !== session.account_id;
    this.current = session;
    sessionStorage.setItem(STORED, JSON.stringify(session));
    if (isOther) {
      this.me = null;
      this.chooseAccount(null);
    }
    return isOther;
  }

  /** Starts the session of a sign-in. Returns the challenge of an account whose second factor comes first, or an empty text. */
  accept(result: SignInResult): string {
    if ('challenge_token' in result) return result.challenge_token;
    this.start(result.session);
    return '';
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
  denied: () => session.checkTeam(),
});
