// A page is a card with several steps; one step is visible at a time.

const message = document.getElementById('message');

/** Shows one step and focuses its first input that needs attention. */
export function show(id) {
  const step = document.getElementById(id);
  for (const other of document.querySelectorAll('main > section')) other.hidden = other !== step;
  const heading = step.querySelector('h1');
  document.title = `${heading.textContent} · Kitfleet`;
  say('');
  const inputs = [...step.querySelectorAll('input')];
  (inputs.find((input) => !input.value) || inputs[0] || heading).focus();
}

/** Shows a message without changing the layout. */
export function say(words, { good = false } = {}) {
  message.classList.toggle('good', good);
  message.textContent = words;
}

/** Calls `act` when a form is submitted, with its fields and the submit button. */
export function onSubmit(id, act) {
  const form = document.getElementById(id);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const fields = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));
    // Leading and trailing blanks are part of a password.
    for (const { name, value } of form.querySelectorAll('input[type=password]')) fields[name] = value;
    alone(() => act(fields, event.submitter), form);
  });
  form.addEventListener('invalid', (event) => {
    event.preventDefault();
    const input = event.target;
    if (input !== form.querySelector('input:invalid')) return;
    say(`${input.labels[0].textContent}: ${input.validationMessage}`);
    input.focus();
  }, true);
}

/** Calls `act` when a button outside a form is pressed. */
export function onPress(id, act) {
  document.getElementById(id).addEventListener('click', () => alone(act));
}

let busy = false;

/** Runs `act` with all buttons disabled. Shows the message of a thrown error and focuses the control to retry with. */
export async function alone(act, form) {
  if (busy) return;
  busy = true;
  const [before, focused] = [shown(), document.activeElement];
  const buttons = [...document.querySelectorAll('button')];
  for (const button of buttons) button.disabled = true;
  say('');
  let retry = null;
  try {
    await act();
  } catch (refusal) {
    retry = form && [...form.querySelectorAll('input')].pop();
    say(refusal.message);
  }
  for (const button of buttons) button.disabled = false;
  busy = false;
  if (shown() !== before) return;
  // A button loses the focus when it is disabled.
  (retry || focused).focus();
  if (retry) retry.select();
}

function shown() {
  return document.querySelector('main > section:not([hidden])');
}
