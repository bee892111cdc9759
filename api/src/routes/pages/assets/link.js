// Follows a link from a mail. Only a button uses up the link: mail scanners open every link they find.

import * as pending from './pending.js';
import { onArrival, proceed } from './sign-in.js';
import { ask, Refusal } from './service.js';
import { onPress, onSubmit, show } from './steps.js';

const { endpoint } = document.querySelector('main').dataset;
const token = new URLSearchParams(location.search).get('token');

for (const repeated of document.querySelectorAll('[data-repeats]')) {
  const password = document.getElementById(repeated.dataset.repeats);
  const compare = () => repeated.setCustomValidity(repeated.value === password.value ? '' : 'The passwords differ.');
  for (const input of [password, repeated]) input.addEventListener('input', compare);
}

onSubmit('link-form', async ({ new_password }) => {
  let result;
  try {
    result = await ask('POST', endpoint, { body: { token, new_password } });
  } catch (refusal) {
    if (!refusal.fields.includes('token')) throw refusal;
    show('trouble');
    throw new Refusal('This link has expired or was already used. Request another one here.');
  }
  history.replaceState(null, '', location.pathname);
  reset = result.password_reset_token ?? null;
  await proceed(result);
});

let reset = null;

onArrival(() => {
  pending.lead(document.getElementById('next'));
  show(reset ? 'password-removed' : 'arrived');
});

// The service removed a password that another person may have chosen.
onSubmit('password-form', async ({ new_password }) => {
  const result = await ask('POST', '/v1/auth/password-reset/confirm', { body: { token: reset, new_password } });
  reset = null;
  await proceed(result);
});
onPress('no-password', () => show('arrived'));
