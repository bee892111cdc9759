// Follows a link from a mail. It is used up by the person, never by opening the page: programs that look at mails open
// every link they find.

import * as pending from './pending.js';
import { onArrival, proceed } from './sign-in.js';
import { ask, Refusal } from './service.js';
import { onSubmit, show } from './steps.js';

const { endpoint } = document.querySelector('main').dataset;
const token = new URLSearchParams(location.search).get('token');
const [password, repeated] = ['new-password', 'repeated'].map((id) => document.getElementById(id));

if (password) {
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
    throw new Refusal('This link has expired, or was used already. Here you get another.');
  }
  history.replaceState(null, '', location.pathname);
  await proceed(result);
});

onArrival(() => {
  pending.lead(document.getElementById('next'));
  show('arrived');
});
