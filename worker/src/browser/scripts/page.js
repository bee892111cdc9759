// What every script of ours has in common. It stands before them, after `const input = …`.

// An answer that says which of the caller's fields the engine refuses.
class Refusal extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

// Text that JSON and Postgres can hold: no lone surrogates, no NUL.
const clean = (text) => String(text).toWellFormed().replaceAll('\0', '\uFFFD');

// Bytes, of a text as it is and of a value as JSON.
const size = (text) => new TextEncoder().encode(text).length;
const jsonSize = (value) => size(JSON.stringify(value));

const guarded = (field, query) => {
  try {
    return query();
  } catch (error) {
    if (error instanceof DOMException && error.name === 'SyntaxError') {
      throw new Refusal(field, 'must be a CSS selector');
    }
    throw error;
  }
};

const queryAll = ({ selector, field }) => guarded(field, () => [...document.querySelectorAll(selector)]);

const boxesOf = (element) => [...element.getClientRects()].filter((box) => box.width > 0 && box.height > 0);

const isVisible = (element) =>
  element.isConnected && element.checkVisibility({ visibilityProperty: true }) && boxesOf(element).length > 0;

const focused = () => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  return element;
};

const hasFocus = (element) => element === focused() || element.contains(document.activeElement);

const NOT_TEXT = ['button', 'checkbox', 'color', 'file', 'hidden', 'image', 'radio', 'range', 'reset', 'submit'];

const takesText = (element) =>
  (element instanceof HTMLInputElement && !NOT_TEXT.includes(element.type)) ||
  element instanceof HTMLTextAreaElement ||
  element instanceof HTMLSelectElement ||
  element.isContentEditable;

// What a target can mean: a selector of the caller's, or a field known by its looks.
const candidatesFor = (target) => (target.selector === undefined ? byLooks(target.role) : queryAll(target));

const find = (target) => {
  const candidates = candidatesFor(target);
  return candidates.find(isVisible) ?? candidates[0];
};

const textFields = () =>
  [...document.querySelectorAll('input, textarea')].filter(
    (field) => takesText(field) && field.type !== 'password' && !field.disabled && !field.readOnly && isVisible(field),
  );

const labelled = (element) =>
  [element.name, element.id, element.placeholder, element.getAttribute('aria-label'), element.autocomplete]
    .filter(Boolean)
    .join(' ');

// Candidates for a role, the likeliest first.
const byLooks = (role) => {
  switch (role) {
    case 'search': {
      const declared = [
        ...document.querySelectorAll('input[type=search], [role=searchbox], [role=search] input, form[action*=search i] input'),
      ].filter((element) => takesText(element) && isVisible(element));
      const named = textFields().filter((field) => /^(q|s|query|keywords?)$/i.test(field.name) || /search/i.test(labelled(field)));
      return [...declared, ...named];
    }
    case 'password':
      return [...document.querySelectorAll('input[type=password]')].filter(
        (field) => !field.disabled && !field.readOnly && isVisible(field),
      );
    case 'username': {
      const fields = textFields();
      const password = byLooks('password')[0];
      const before = fields.filter(
        (field) => password && field.compareDocumentPosition(password) & Node.DOCUMENT_POSITION_FOLLOWING,
      );
      return [
        ...fields.filter((field) => /\busername\b/i.test(field.autocomplete)),
        ...before.filter((field) => field.form === password.form).reverse(),
        ...before.reverse(),
        ...fields.filter((field) => field.type === 'email' || /user|e-?mail|login|account|phone/i.test(labelled(field))),
      ];
    }
    case 'submit': {
      const field = byLooks('password')[0] ?? focused();
      const buttons = [...(field?.form ?? document).querySelectorAll('button, input[type=submit], [role=button]')].filter(isVisible);
      const says = (button) => (button.innerText || button.value || labelled(button)).trim();
      return [
        ...buttons.filter((button) => field?.form && button.type === 'submit'),
        ...buttons.filter((button) => /^(log ?in|sign ?in|continue|next|submit)\b/i.test(says(button))),
      ];
    }
  }
};

// The next frame, or a moment where nothing is drawn.
const frame = () =>
  new Promise((resolve) => {
    requestAnimationFrame(resolve);
    setTimeout(resolve, 50);
  });
