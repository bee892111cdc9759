// Connects a device: signs the person in, takes the device code, shows the request and asks for consent.

import * as pending from './pending.js';
import { askAs, begin, onArrival } from './sign-in.js';
import { Refusal } from './service.js';
import { alone, onPress, onSubmit, show } from './steps.js';

const UNKNOWN = 'No device is waiting for this code. Compare it with the code on your device, or start again there: '
  + 'a code is valid for only a few minutes.';

const at = (id) => document.getElementById(id);
const code = at('user-code');
let waiting;

code.value = new URLSearchParams(location.search).get('user_code') || '';
if (code.value) pending.remember(`/activate?user_code=${encodeURIComponent(code.value)}`, 'Connect a device');

onArrival(() => show('enter-code'));

onSubmit('code-form', async ({ user_code: typed }) => {
  const found = await withCode(askAs('GET', `/v1/auth/cli-authorize/${encodeURIComponent(typed)}`));
  waiting = { user_code: typed, state: found.state, label: found.client_label || 'the device' };
  at('device').textContent = found.client_label || 'Unnamed device';
  at('address').textContent = found.ip_address || 'unknown';
  at('asked').textContent = new Date(found.created_at).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
  show('consent');
});

onSubmit('consent-form', async () => {
  const { user_code, state, label } = waiting;
  await withCode(askAs('POST', '/v1/auth/cli-authorize/bind-device-code', { user_code, state }));
  at('connected').textContent = label;
  leave('done');
});

onPress('not-me', () => leave('refused'));

/** Replaces the service's message about an unknown code with advice for the person. */
async function withCode(answer) {
  try {
    return await answer;
  } catch (refusal) {
    if (refusal.status !== 404) throw refusal;
    show('enter-code');
    throw new Refusal(UNKNOWN);
  }
}

/** Removes the used code from the URL and the browser history. */
function leave(step) {
  pending.forget();
  history.replaceState(null, '', location.pathname);
  show(step);
}

alone(begin);
