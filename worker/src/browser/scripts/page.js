// What every script of ours has in common. It stands before them, after `const input = …`. What few of them need stands between
// (`accessible.js`, `targets.js`, `looks.js`): all that is sent is read anew each time.
//
// A page's names can stand in the place of what a form, or the document itself, has: `<input name=getAttribute>`. So what is asked
// of any element is asked by the functions of its prototype.

// An answer that says which of the caller's fields the engine refuses, and what else there was to mean.
class Refusal extends Error {
  constructor(field, message, members = {}) {
    super(message);
    this.field = field;
    this.members = members;
  }
}

// Of a ref that was given and is good no longer.
class Gone extends Refusal {}

// Functions of ours around them: bound ones take a multiple of the time to call, and a page is asked a hundred thousand times.
const method = (prototype, name) => {
  const { value } = Object.getOwnPropertyDescriptor(prototype, name);
  return (it, one, two) => value.call(it, one, two);
};
const getter = (prototype, name) => {
  const { get } = Object.getOwnPropertyDescriptor(prototype, name);
  return (it) => get.call(it);
};

const attributeOf = method(Element.prototype, 'getAttribute');
const attributeNames = method(Element.prototype, 'getAttributeNames');
const hasAttribute = method(Element.prototype, 'hasAttribute');
const matches = method(Element.prototype, 'matches');
const closest = method(Element.prototype, 'closest');
const rectsOf = method(Element.prototype, 'getClientRects');
const boxOf = method(Element.prototype, 'getBoundingClientRect');
const checkVisibility = method(Element.prototype, 'checkVisibility');
const tagOf = getter(Element.prototype, 'localName');
const shadowOf = getter(Element.prototype, 'shadowRoot');
const parentElementOf = getter(Node.prototype, 'parentElement');
const parentNodeOf = getter(Node.prototype, 'parentNode');
const firstChildOf = getter(Node.prototype, 'firstChild');
const nextSiblingOf = getter(Node.prototype, 'nextSibling');
const previousElementOf = getter(Element.prototype, 'previousElementSibling');
const childrenOf = getter(Element.prototype, 'children');
const documentOf = getter(Node.prototype, 'ownerDocument');
const isConnected = getter(Node.prototype, 'isConnected');
const rootOf = method(Node.prototype, 'getRootNode');
const nodeType = getter(Node.prototype, 'nodeType');
const [body, documentElement] = ['body', 'documentElement'].map((name) => getter(Document.prototype, name));
const bodyOf = (root) => body(root) ?? documentElement(root);

// The same of documents, of shadow roots and fragments, and of elements.
const ofRoot = (take, name) => {
  const of = { 1: Element.prototype, 9: Document.prototype, 11: name === 'querySelectorAll' ? DocumentFragment.prototype : ShadowRoot.prototype };
  const known = Object.fromEntries(Object.entries(of).filter(([, prototype]) => name in prototype).map(([type, prototype]) => [type, take(prototype, name)]));
  return (root, ...list) => known[nodeType(root)](root, ...list);
};
const queryIn = ofRoot(method, 'querySelectorAll');
const hitIn = ofRoot(method, 'elementFromPoint');
const activeIn = ofRoot(getter, 'activeElement');
const createFragment = method(Document.prototype, 'createDocumentFragment');

// Text that JSON and Postgres can hold: no lone surrogates, no NUL.
const clean = (text) => String(text).toWellFormed().replaceAll('\0', '\uFFFD');

// Text as it reads: white space of any kind and length is one space. Signs that turn the direction of what follows are left out.
const collapse = (text) => text.replace(/[\u202A-\u202E\u2066-\u2069]/g, '').replace(/[\s\x7F-\x9F]+/g, ' ').trim();

// No more than so many characters of it.
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1).toWellFormed()}…` : text);

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

// The document of a frame that is of the page's origin.
const isFrame = (element) => tagOf(element) === 'iframe' || tagOf(element) === 'frame';
const frameDocument = (element) => (isFrame(element) ? element.contentDocument : null);

// The frame that an element is in, if it is in one.
const frameOf = (element) => {
  const owner = documentOf(element);
  return owner === document ? null : owner.defaultView?.frameElement;
};

// ` >>> ` in a selector leads from an element into its shadow root, or its document if it is a frame.
const queryAll = ({ selector, field }) =>
  guarded(field, () => {
    try {
      return [...queryIn(document, selector)];
    } catch (error) {
      const parts = selector.split('>>>');
      if (parts.length === 1) throw error;
      // One that is none is refused also where nothing matches before it.
      for (const part of parts) queryIn(createFragment(document), part);
      const inside = (elements) => elements.map((element) => shadowOf(element) ?? frameDocument(element)).filter(Boolean);
      const [first, ...rest] = parts;
      return rest.reduce((found, part) => inside(found).flatMap((root) => [...queryIn(root, part)]), [...queryIn(document, first)]);
    }
  });

const boxesOf = (element) => [...rectsOf(element)].filter((box) => box.width > 0 && box.height > 0);

const hasBox = (element) => {
  const box = boxOf(element);
  return box.width > 0 && box.height > 0;
};

const isVisible = (element) => {
  const shows = isConnected(element) && checkVisibility(element, { visibilityProperty: true }) && hasBox(element);
  if (!shows || documentOf(element) === document) return shows;
  const frame = frameOf(element);
  return Boolean(frame) && isVisible(frame);
};

// What a node is in: of a shadow root its host, and of a frame's document the frame.
const outside = (node) => parentNodeOf(node) ?? (nodeType(node) === 11 ? node.host : nodeType(node) === 9 ? node.defaultView?.frameElement : null);

// How far the corner of a frame's document is from that of the page's viewport.
const originOf = (element) => {
  let [left, top] = [0, 0];
  for (let frame = frameOf(element); frame; frame = frameOf(frame)) {
    const [x, y] = insideOf(frame);
    left += x;
    top += y;
  }
  return [left, top];
};
const insideOf = (frame) => {
  const box = boxOf(frame);
  const style = getComputedStyle(frame);
  return [box.left + frame.clientLeft + parseFloat(style.paddingLeft), box.top + frame.clientTop + parseFloat(style.paddingTop)];
};

const focused = () => {
  let element = activeIn(document);
  for (;;) {
    const root = element && (shadowOf(element) ?? frameDocument(element));
    const inner = root && activeIn(root);
    // A document that has not the focus says that its body has.
    if (!inner || (nodeType(root) === 9 && inner === bodyOf(root))) return element;
    element = inner;
  }
};

const hasFocus = (element) => {
  for (let node = focused(); node; node = outside(node)) {
    if (node === element) return true;
  }
  return false;
};

// What a target can mean: by a selector of the caller's, by what it is (`targets.js`), or as a field known by its looks (`looks.js`).
const candidatesFor = (target) => {
  if (target.looks !== undefined) return byLooks(target.looks);
  return target.target === undefined ? queryAll(target) : told(target);
};

// The one element that is meant. Of a selector that is the first that can be seen; of a target there may be only one.
const find = (target) => {
  const candidates = candidatesFor(target);
  if (target.target !== undefined && candidates.length > 1) refuseSeveral(target.field, candidates);
  return candidates.find(isVisible) ?? candidates[0];
};

const NOT_TEXT = ['button', 'checkbox', 'color', 'file', 'hidden', 'image', 'radio', 'range', 'reset', 'submit'];

const takesText = (element) =>
  (tagOf(element) === 'input' && !NOT_TEXT.includes(element.type)) ||
  tagOf(element) === 'textarea' ||
  tagOf(element) === 'select' ||
  element.isContentEditable === true;

// The next frame, or a moment where nothing is drawn.
const frame = () =>
  new Promise((resolve) => {
    requestAnimationFrame(resolve);
    setTimeout(resolve, 50);
  });
