// Code that all scripts share. It is sent before them, after `const input = …`. Code that only some scripts need is sent
// between (`accessible.js`, `targets.js`, `looks.js`), because everything that is sent is parsed again each time.
//
// Names in a page can shadow properties of a form or the document, such as `<input name=getAttribute>`. Elements are
// therefore accessed with the functions of their prototypes.

// Error for a field of the request that the engine rejects, with further members of the problem.
class Refusal extends Error {
  constructor(field, message, members = {}) {
    super(message);
    this.field = field;
    this.members = members;
  }
}

// Error for a ref whose element is gone.
class Gone extends Refusal {}

// Arrow functions, because bound functions are several times slower, and a page is queried a hundred thousand times.
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

// The same for a root, which can be a document, a shadow root or fragment, or an element.
const ofRoot = (take, name) => {
  const of = { 1: Element.prototype, 9: Document.prototype, 11: name === 'querySelectorAll' ? DocumentFragment.prototype : ShadowRoot.prototype };
  const known = Object.fromEntries(Object.entries(of).filter(([, prototype]) => name in prototype).map(([type, prototype]) => [type, take(prototype, name)]));
  return (root, ...list) => known[nodeType(root)](root, ...list);
};
const queryIn = ofRoot(method, 'querySelectorAll');
const hitIn = ofRoot(method, 'elementFromPoint');
const activeIn = ofRoot(getter, 'activeElement');
const createFragment = method(Document.prototype, 'createDocumentFragment');

// Replaces what JSON and PostgreSQL cannot store: lone surrogates and NUL.
const clean = (text) => String(text).toWellFormed().replaceAll('\0', '\uFFFD');

// Collapses white space into single spaces, and removes characters that change the direction of text.
const collapse = (text) => text.replace(/[\u202A-\u202E\u2066-\u2069]/g, '').replace(/[\s\x7F-\x9F]+/g, ' ').trim();

// Truncates a text to `most` characters.
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1).toWellFormed()}…` : text);

// Size in bytes of a text, and of a value as JSON.
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

const isFrame = (element) => tagOf(element) === 'iframe' || tagOf(element) === 'frame';

// Frames of the documents that the scripts have reached. WebKit withholds the frame of a document of another origin.
const FRAMES = Symbol.for('kitfleet.frames');
const frames = (globalThis[FRAMES] ??= new WeakMap());

// Returns the document of a frame. WebKit withholds a document of another origin, which the web-process extension has
// registered by the frame's window. A registered document that the frame has left has no window.
const windowOf = getter(Document.prototype, 'defaultView');
const { documents } = globalThis[Symbol.for('kitfleet.shared')];
const frameDocument = (element) => {
  if (!isFrame(element)) return null;
  const { contentDocument, contentWindow } = element;
  const inner = contentDocument ?? (contentWindow && documents.get(contentWindow));
  if (!inner || (!contentDocument && windowOf(inner) !== contentWindow)) return null;
  frames.set(inner, element);
  return inner;
};

// Returns the frame of a document.
const frameAround = (owner) => {
  if (owner === document) return null;
  const frame = frames.get(owner);
  if (frame) return frameDocument(frame) === owner ? frame : null;
  return windowOf(owner)?.frameElement ?? null;
};

// Returns the frame that contains an element.
const frameOf = (element) => frameAround(documentOf(element));

// True for a document of another origin than the page, or within a frame of another origin.
const isForeign = (owner) => {
  for (let frame = frameAround(owner); frame; frame = frameOf(frame)) {
    if (!frame.contentDocument) return true;
  }
  return false;
};

// In a selector, ` >>> ` leads from an element into its shadow root, or into the document of a frame.
const queryAll = ({ selector, field }) =>
  guarded(field, () => {
    try {
      return [...queryIn(document, selector)];
    } catch (error) {
      const parts = selector.split('>>>');
      if (parts.length === 1) throw error;
      // An invalid part is rejected even when nothing matches before it.
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

// Returns the parent of a node: the host of a shadow root, and the frame of a frame's document.
const outside = (node) => parentNodeOf(node) ?? (nodeType(node) === 11 ? node.host : nodeType(node) === 9 ? frameAround(node) : null);

// Offset of a frame's document from the viewport of the page.
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
    // A document without the focus returns its body.
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

// Returns the elements of a target: by the caller's selector, by properties (`targets.js`), or by appearance
// (`looks.js`).
const candidatesFor = (target) => {
  if (target.looks !== undefined) return byLooks(target.looks);
  return target.target === undefined ? queryAll(target) : told(target);
};

// Returns the element of a target: the first visible match of a selector, or the only match of a target by properties.
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

// Waits for the next frame, or for 50 ms if nothing is drawn.
const frame = () =>
  new Promise((resolve) => {
    requestAnimationFrame(resolve);
    setTimeout(resolve, 50);
  });
