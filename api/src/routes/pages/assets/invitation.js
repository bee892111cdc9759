// Accepts an invitation to a team: signs the person in and asks for confirmation.

import * as pending from './pending.js';
import { askAs, begin, onArrival } from './sign-in.js';
import { alone, onSubmit, show } from './steps.js';

const token = new URLSearchParams(location.search).get('token');

if (token) pending.remember(location.pathname + location.search, 'See the invitation');

onArrival(() => show('invitation'));

onSubmit('invitation-form', async () => {
  let membership;
  try {
    ({ membership } = await askAs('POST', '/v1/team/invites/accept', { token }));
  } catch (refusal) {
    if (!refusal.fields.includes('token')) throw refusal;
    return leave('ended');
  }
  leave('joined');
  const { data } = await askAs('GET', '/v1/team/owners');
  const owner = data.find((one) => one.membership_id === membership.id);
  if (owner) document.getElementById('owner').textContent = owner.owner_email;
});

/** Removes the used token from the URL and the browser history. */
function leave(step) {
  pending.forget();
  history.replaceState(null, '', location.pathname);
  show(step);
}

alone(begin);
