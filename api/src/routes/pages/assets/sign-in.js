// Signs a person in, by password or with an existing login result, and out.

import { ask, Refusal } from './service.js';
import { onPress, onSubmit, say, show } from './steps.js';

/** The session ends with its tab; another tab signs in separately. */
const SESSION = 'kitfleet.session';

let session = JSON.parse(sessionStorage.getItem(SESSION));
let challenge;
let arrive;

/** Sets the function that runs after a sign-in. */
export function onArrival(act) {
  arrive = act;
}

/** Continues with a valid session, or asks the person to sign in. */
export async function begin() {
  if (!session) return show('sign-in');
  try {
    return await greet();
  } catch (refusal) {
    show('sign-in');
    throw refusal;
  }
}

/** Starts a session from a login result; the contract has two kinds of login results. */
export async function proceed(result) {
  if (result.mfa_required) {
    challenge = result.challenge_token;
    show('totp');
  } else {
    session = result.session;
    sessionStorage.setItem(SESSION, JSON.stringify(session));
    // The typed credentials are not needed any more.
    const typed = '#sign-in-form, #totp-form, #recovery-form, #link-form';
    for (const form of document.querySelectorAll(typed)) form.reset();
    await greet();
  }
}

/** Sends a request as the signed-in person. An ended session leads back to the sign-in. */
export async function askAs(method, path, body) {
  try {
    return await ask(method, path, { body, session });
  } catch (refusal) {
    if (refusal.status === 401) {
      forget();
      refusal.message = 'Your session has ended. Please sign in again.';
    }
    throw refusal;
  }
}

async function greet() {
  const { email } = await askAs('GET', '/v1/account/me');
  document.getElementById('who').textContent = `Signed in as ${email}`;
  document.getElementById('signed-in-as').hidden = false;
  await arrive();
}

function forget() {
  session = null;
  sessionStorage.removeItem(SESSION);
  document.getElementById('signed-in-as').hidden = true;
  show('sign-in');
}

onSubmit('sign-in-form', async (fields) => proceed(await ask('POST', '/v1/auth/login', { body: fields })));

async function answer(proof) {
  try {
    await proceed(await ask('POST', '/v1/auth/mfa/challenge', { body: { challenge_token: challenge, ...proof } }));
  } catch (refusal) {
    if (!refusal.fields.includes('challenge_token')) throw refusal;
    show('sign-in');
    throw new Refusal('The sign-in timed out, or too many codes were wrong. Please sign in again.');
  }
}

onSubmit('totp-form', ({ code }) => answer({ code: code.replace(/\s/g, '') }));
onSubmit('recovery-form', (fields) => answer(fields));
onPress('to-recovery', () => show('recovery'));
onPress('to-totp', () => show('totp'));
for (const back of ['totp-back', 'recovery-back', 'trouble-back']) onPress(back, () => show('sign-in'));

onPress('to-trouble', () => {
  const [email, known] = ['trouble-email', 'email'].map((id) => document.getElementById(id));
  email.value = email.value || known.value;
  show('trouble');
});

// Like the service, the page does not reveal whether the address has an account.
onSubmit('trouble-form', async ({ email }, button) => {
  await ask('POST', button.value, { body: { email } });
  say(`If ${email} has an account, we have sent a link to it.`, { good: true });
});

onPress('sign-out', async () => {
  await ask('POST', '/v1/auth/logout', { body: { token: session.token } });
  forget();
  say('You are signed out.', { good: true });
});
