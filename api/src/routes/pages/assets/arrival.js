// Starts a session for a person who returns from an identity provider.

import * as pending from './pending.js';
import { onArrival, proceed } from './sign-in.js';
import { ask } from './service.js';
import { alone, onPress, show } from './steps.js';

onArrival(() => {
  pending.lead(document.getElementById('next'));
  show('arrived');
});

onPress('again', () => show('sign-in'));

alone(async () => {
  const { pathname, search } = location;
  // The request uses up the URL's parameters, whether or not it succeeds.
  history.replaceState(null, '', pathname);
  try {
    const result = await ask('GET', pathname + search, { credentials: 'same-origin' });
    if (result.confirmation_required) return show('confirm');
    return await proceed(result);
  } catch (refusal) {
    show('refused');
    throw refusal;
  }
});
