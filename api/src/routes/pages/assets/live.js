// Shows the screen of a session's browser and sends a controller's input. The credential is in the URL fragment: a link, which
// yields any number of tickets, or `ticket=` and a ticket that is valid once.

import { ask, Refusal } from './service.js';

/** Canvas pixels per CSS pixel of the remote browser. */
const SCALE = 2;
/** Maximum number of simultaneous touches. */
const FINGERS = 10;
/** Maximum number of connection attempts without a picture. */
const MOST_TRIES = 10;
/** Maximum pause between attempts; the pause doubles each time. */
const LONGEST_PAUSE_MS = 5_000;
const PROTOCOL = 'kitfleet.live.v1';

const at = (id) => document.getElementById(id);
const canvas = at('view');
const context = canvas.getContext('2d');
const session = location.pathname.split('/').pop();
const given = location.hash.slice(1);
const ticket = given.startsWith('ticket=') ? given.slice('ticket='.length) : null;

/** Messages for a final end of the view, by WebSocket close code. */
const ENDED = {
  4000: 'The session has ended.',
  4001: 'You are not allowed to watch this session any more.',
  4002: 'This page and the service are incompatible. Reload the page.',
  4004: 'This page sent more input than the service accepts. Reload the page.',
};
/** Labels of the button that changes control, by the message it sends. */
const LANES = { takeover: 'Take over', handback: 'Hand back' };
const DRIVERS = { you: 'You drive.', agent: 'The agent drives.', other: 'Another person drives.', nobody: '' };

let socket;
let tries = 0;
let seen = false;
let controls = false;
let mayAct = false;
let size = [0, 0];
let drawing = Promise.resolve();

function say(text) {
  at('message').textContent = text;
  at('message').hidden = !text;
}

async function connect() {
  let offered = ticket;
  seen = false;
  try {
    if (!ticket) {
      const followed = await ask('POST', '/v1/live-links/follow', { body: { link: given } });
      if (!followed.url.endsWith(`/v1/sessions/${session}/live`)) return say('This address is invalid.');
      offered = followed.ticket;
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.status === 404 || error.status === 400) return say('This link is not valid any more.');
    return again(error.message);
  }
  const address = new URL(`/v1/sessions/${session}/live`, location.href);
  address.protocol = address.protocol.replace('http', 'ws');
  address.hash = '';
  socket = new WebSocket(address, [PROTOCOL, `ticket.${offered}`]);
  socket.binaryType = 'arraybuffer';
  socket.onmessage = ({ data }) => {
    if (typeof data === 'string') hear(JSON.parse(data));
    else drawing = drawing.then(() => draw(data)).catch(() => socket.close());
  };
  socket.onclose = ({ code }) => {
    release();
    if (ENDED[code]) return say(ENDED[code]);
    if (ticket) return say('The connection was lost, and the ticket works only once. Request another ticket to continue.');
    return again('The connection was lost.');
  };
}

function again(why) {
  if (tries === MOST_TRIES) return say(`${why} The session cannot be watched now. Reload the page to try again.`);
  const pause = Math.min(LONGEST_PAUSE_MS, 200 * 2 ** tries);
  tries += 1;
  say(`${why} Trying again…`);
  setTimeout(connect, pause);
}

/** Draws a picture message: a header of 32 bytes with little-endian numbers, then a JPEG. */
async function draw(message) {
  const head = new DataView(message);
  const number = (offset) => head.getUint16(offset, true);
  const picture = await createImageBitmap(new Blob([new Uint8Array(message, 32)], { type: 'image/jpeg' }));
  if (size[0] !== number(2) || size[1] !== number(4)) {
    size = [number(2), number(4)];
    [canvas.width, canvas.height] = size.map((length) => length * SCALE);
  }
  const [left, top, width, height] = [6, 8, 10, 12].map((offset) => number(offset) * SCALE);
  context.drawImage(picture, left, top, width, height);
  picture.close();
  send({ type: 'ack', seq: head.getUint32(16, true) });
  if (!seen) say('');
  seen = true;
  tries = 0;
}

function hear(said) {
  if (said.type === 'hello') {
    controls = said.role === 'controller';
    for (const id of ['keyboard', 'next', 'previous']) at(id).hidden = !controls;
    canvas.setAttribute('role', controls ? 'application' : 'img');
  } else if (said.type === 'page') {
    at('title').textContent = said.title || 'Live view';
    at('address').textContent = said.url || '';
  } else if (said.type === 'control') {
    mayAct = said.may_act;
    at('driver').textContent = DRIVERS[said.driver] || '';
    canvas.classList.toggle('acting', mayAct);
    offer(said.offers);
  } else if (said.type === 'menu') {
    showMenu(said.items);
  } else if (said.type === 'dialog') {
    showDialog(said.dialog);
  } else if (said.type === 'refused' && said.reason !== 'too_fast') {
    say(said.detail);
  }
}

function send(said) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(said));
}

function act(...events) {
  if (!controls || !mayAct) return;
  // Clears the message of an earlier refusal; a new refusal is shown again.
  if (seen) say('');
  send({ type: 'input', events });
}

/** Shows the button that changes control, if the viewer is allowed to. */
function offer(change) {
  const lane = at('lane');
  lane.value = change || '';
  lane.textContent = LANES[change] || '';
  show(lane, change in LANES);
}

at('lane').addEventListener('click', () => {
  send({ type: at('lane').value });
  canvas.focus();
});

/** Shows or hides a part of the page. A hidden part gives the focus back to the canvas. */
function show(part, shows) {
  const loses = !shows && part.contains(document.activeElement);
  part.hidden = !shows;
  if (loses) canvas.focus();
}

// --- touch input ---

const fingers = new Map();
const moves = new Map();

function place({ clientX, clientY }) {
  const box = canvas.getBoundingClientRect();
  const within = (value, most) => Math.min(Math.max(value, 0), most);
  return {
    x: within((clientX - box.left) / box.width * size[0], size[0]),
    y: within((clientY - box.top) / box.height * size[1], size[1]),
  };
}

function flush() {
  if (moves.size) act(...moves.values());
  moves.clear();
}

canvas.addEventListener('pointerdown', (event) => {
  canvas.focus();
  canvas.setPointerCapture(event.pointerId);
  let finger = 0;
  while ([...fingers.values()].includes(finger)) finger += 1;
  if (finger === FINGERS) return;
  fingers.set(event.pointerId, finger);
  act({ type: 'touch', finger, phase: 'begin', ...place(event) });
  event.preventDefault();
});

canvas.addEventListener('pointermove', (event) => {
  const finger = fingers.get(event.pointerId);
  if (finger === undefined) return;
  if (!moves.size) requestAnimationFrame(flush);
  moves.set(finger, { type: 'touch', finger, phase: 'update', ...place(event) });
});

for (const [name, phase] of [['pointerup', 'end'], ['pointercancel', 'cancel']]) {
  canvas.addEventListener(name, (event) => {
    const finger = fingers.get(event.pointerId);
    if (finger === undefined) return;
    flush();
    fingers.delete(event.pointerId);
    act({ type: 'touch', finger, phase, ...place(event) });
  });
}

canvas.addEventListener('wheel', (event) => {
  event.preventDefault();
  const { x, y } = place(event);
  act({ type: 'wheel', x, y, delta_x: event.deltaX, delta_y: event.deltaY });
}, { passive: false });

function release() {
  fingers.clear();
  moves.clear();
  mayAct = false;
  offer(null);
  showMenu(null);
  showDialog(null);
}

// --- keyboard input ---

const typed = at('typed');

function press(event) {
  const modifiers = ['Control', 'Alt', 'Meta', 'Shift'];
  // The input method handles its own keys. Safari reports the confirming key as not composing, but with key code 229.
  if (!controls || event.isComposing || event.keyCode === 229) return;
  if (event.key === 'Unidentified' || event.key === 'Dead' || event.key === 'Tab') return;
  if (modifiers.includes(event.key) || ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'v')) return;
  const held = [event.ctrlKey && 'Control', event.altKey && 'Alt', event.metaKey && 'Meta'].filter(Boolean);
  // A letter key already reports the capital letter.
  if (event.shiftKey && event.key.length > 1) held.push('Shift');
  // On phones and with input methods, the text field reports letters more reliably.
  if (event.target === typed && !held.length && event.key.length === 1) return;
  act({ type: 'key', key: [...held, event.key].join('+') });
  event.preventDefault();
}

canvas.addEventListener('keydown', press);
typed.addEventListener('keydown', press);

function takeTyped() {
  if (typed.value) act({ type: 'text', text: typed.value });
  typed.value = '';
}

typed.addEventListener('input', (event) => { if (!event.isComposing) takeTyped(); });
typed.addEventListener('compositionend', takeTyped);
at('keyboard').addEventListener('click', () => typed.focus());
// The Tab key moves the focus in this page, so buttons send it to the remote page.
at('next').addEventListener('click', (event) => lead('Tab', event));
at('previous').addEventListener('click', (event) => lead('Shift+Tab', event));

/** Moves to another field of the remote page. After a click the focus moves to the input; a keyboard user keeps the button focused. */
function lead(key, { detail: clicks, pointerType }) {
  act({ type: 'key', key });
  if (clicks > 0) (pointerType === 'touch' ? typed : canvas).focus();
}

addEventListener('paste', (event) => {
  const text = event.clipboardData.getData('text');
  if (text && event.target !== at('answer')) {
    act({ type: 'text', text });
    event.preventDefault();
  }
});

// --- menus and dialogs of the remote page ---

function showMenu(items) {
  const menu = at('menu');
  show(menu, Boolean(items));
  menu.replaceChildren(...(items || []).map((item, index) => {
    const option = document.createElement('button');
    option.type = 'button';
    option.className = 'second';
    option.role = 'option';
    option.tabIndex = -1;
    option.ariaSelected = String(item.selected);
    option.textContent = item.label;
    option.disabled = !item.enabled || item.group;
    option.addEventListener('click', () => act({ type: 'choose', index }));
    return option;
  }));
  goTo(menu.querySelector('[aria-selected=true]:enabled') || menu.querySelector('button:enabled'));
}

/** Focuses an option and makes it the only one in the tab order. */
function goTo(option) {
  for (const other of at('menu').children) other.tabIndex = other === option ? 0 : -1;
  option?.focus();
}

at('menu').addEventListener('keydown', (event) => {
  const options = [...at('menu').querySelectorAll('button:enabled')];
  const here = options.indexOf(document.activeElement);
  const last = options.length - 1;
  const there = { ArrowDown: Math.min(here + 1, last), ArrowUp: Math.max(here - 1, 0), Home: 0, End: last }[event.key];
  if (event.key === 'Escape') act({ type: 'choose', index: null });
  if (there === undefined) return;
  goTo(options[there]);
  event.preventDefault();
});

function showDialog(dialog) {
  const form = at('dialog');
  show(form, Boolean(dialog));
  if (!dialog) return;
  const isPrompt = dialog.kind === 'prompt';
  at('asked').textContent = dialog.message || 'Leave this page?';
  at('answer').hidden = !isPrompt;
  form.querySelector('label').hidden = !isPrompt;
  at('answer').value = dialog.default || '';
  at('dismiss').hidden = dialog.kind === 'alert';
  (isPrompt ? at('answer') : at('accept')).focus();
}

at('dialog').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = at('answer').hidden ? {} : { text: at('answer').value };
  act({ type: 'answer', accept: true, ...text });
});
at('dismiss').addEventListener('click', () => act({ type: 'answer', accept: false }));

// Another link to the same session, opened in the same tab, changes only the fragment.
addEventListener('hashchange', () => location.reload());

if (given) connect();
else say('This address contains no link or ticket. Ask for a new link.');
