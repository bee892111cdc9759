// A page is a card with several steps, of which one is shown.

const message = document.getElementById('message');

/** Shows a step alone, and puts the person where they have something to do in it. */
export function show(id) {
  const step = document.getElementById(id);
  for (const other of document.querySelectorAll('main > section')) other.hidden = other !== step;
  const heading = step.querySelector('h1');
  document.title = `${heading.textContent} · Kitfleet`;
  say('');
  const inputs = [...step.querySelectorAll('input')];
  (inputs.find((input) => !input.value) || inputs[0] || heading).focus();
}

/** Says how it went, without moving anything. */
export function say(words, { good = false } = {}) {
  message.classList.toggle('good', good);
  message.textContent = words;
}

/** Does something when a form is sent, with its fields and the button it was sent by. */
export function onSubmit(id, act) {
  const form = document.getElementById(id);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const fields = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));
    // Blanks at the ends of a password are part of it.
    for (const { name, value } of form.querySelectorAll('input[type=password]')) fields[name] = value;
    alone(() => act(fields, event.submitter), form);
  });
  // What the browser finds wrong is said where everything else is said.
  form.addEventListener('invalid', (event) => {
    event.preventDefault();
    const input = event.target;
    if (input !== form.querySelector('input:invalid')) return;
    say(`${input.labels[0].textContent}: ${input.validationMessage}`);
    input.focus();
  }, true);
}

/** Does something when a button is pressed that sends no form. */
export function onPress(id, act) {
  document.getElementById(id).addEventListener('click', () => alone(act));
}

let busy = false;

/** Nothing else can be pressed until `act` is done. What it throws is said, and the person is where they can try again. */
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
