// Code that all scripts share, sent before them, after `const input = …`. Code that only some need is sent between
// (`accessible.js`, `targets.js`, `looks.js`), because it is parsed again each time.
//
// Names in a page can shadow properties of a form or the document, such as `<input name=getAttribute>`, so elements are
// accessed with the functions of their prototypes.

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

// Bound functions are several times slower, and a page is queried a hundred thousand times.
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
const namespaceOf = getter(Element.prototype, 'namespaceURI');
const isHtml = (element) => namespaceOf(element) === 'http://www.w3.org/1999/xhtml';
const shadowOf = getter(Element.prototype, 'shadowRoot');
const parentElementOf = getter(Node.prototype, 'parentElement');
const parentNodeOf = getter(Node.prototype, 'parentNode');
const firstChildOf = getter(Node.prototype, 'firstChild');
const nextSiblingOf = getter(Node.prototype, 'nextSibling');
const previousElementOf = getter(Element.prototype, 'previousElementSibling');
const childrenOf = getter(Element.prototype, 'children');
const documentOf = getter(Node.prototype, 'ownerDocument');
const isConnected = getter(Node.prototype, 'isConnected');
const contentTextOf = getter(Node.prototype, 'textContent');
const renderedTextOf = getter(HTMLElement.prototype, 'innerText');
const rootOf = method(Node.prototype, 'getRootNode');
const nodeType = getter(Node.prototype, 'nodeType');
const [body, documentElement] = ['body', 'documentElement'].map((name) => getter(Document.prototype, name));
const bodyOf = (root) => body(root) ?? documentElement(root);

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

// Also removes characters that change the direction of text.
const collapse = (text) => text.replace(/[\u202A-\u202E\u2066-\u2069]/g, '').replace(/[\s\x7F-\x9F]+/g, ' ').trim();

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1).toWellFormed()}…` : text);

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

// WebKit withholds the frame of a document of another origin.
const FRAMES = Symbol.for('kitfleet.frames');
const frames = (globalThis[FRAMES] ??= new WeakMap());

// WebKit withholds a document of another origin, which the web-process extension has registered by the frame's window. A
// registered document that the frame has left has no window.
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

const frameAround = (owner) => {
  if (owner === document) return null;
  const frame = frames.get(owner);
  if (frame) return frameDocument(frame) === owner ? frame : null;
  return windowOf(owner)?.frameElement ?? null;
};

const frameOf = (element) => frameAround(documentOf(element));

// True for a document of another origin than the page, or within a frame of another origin.
const isForeign = (owner) => {
  for (let frame = frameAround(owner); frame; frame = frameOf(frame)) {
    if (!frame.contentDocument) return true;
  }
  return false;
};

// ` >>> ` leads into a shadow root, or into the document of a frame.
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

const hasArea = (box) => box.width > 0 && box.height > 0;
const boxesOf = (element) => [...rectsOf(element)].filter(hasArea);

const hasBox = (element) => hasArea(boxOf(element)) || contentBoxes(element, 1).length > 0;

// Only the box of the element itself is checked first, because most elements have one.
const isVisible = (element) => {
  if (!isConnected(element)) return false;
  const isRendered = checkVisibility(element, { visibilityProperty: true });
  const shows = (isRendered && hasArea(boxOf(element))) || contentBoxes(element, 1).length > 0;
  if (!shows || documentOf(element) === document) return shows;
  const frame = frameOf(element);
  return Boolean(frame) && isVisible(frame);
};

// True for a visible element, and for a toggle or a file input that a user operates by its visible label.
const isPresented = (element) => isVisible(element) || (isToggle(element) && tappableBoxes(element).length > 0);

const TOGGLE_TYPES = ['checkbox', 'file', 'radio'];
const isToggle = (element) => tagOf(element) === 'input' && TOGGLE_TYPES.includes(inputType(element));
const inputType = getter(HTMLInputElement.prototype, 'type');
const inputLabels = getter(HTMLInputElement.prototype, 'labels');

// In coordinates of the element's own frame, in order of preference. Some elements are shown without a box of their own, and
// some toggles by their labels only.
const tappableBoxes = (element) => {
  if (!isConnected(element)) return [];
  const own = checkVisibility(element, { visibilityProperty: true }) ? boxesOf(element) : [];
  if (isToggle(element)) return toggleBoxes(element, own);
  return own.length > 0 ? own : contentBoxes(element, MOST_BOXES);
};

// Of the content, the shape of an `<area>`, the row of an `<option>` in a list, or the stroke of a line.
const MOST_BOXES = 20;
const MOST_CONTENT_NODES = 300;
const contentBoxes = (element, most) => {
  switch (tagOf(element)) {
    case 'area':
      return areaBoxes(element);
    case 'option':
      return optionBoxes(element, most);
  }
  const style = getComputedStyle(element);
  if (style.display === 'none') return [];
  if (style.display !== 'contents' && !checkVisibility(element)) return [];
  const strokes = strokeBoxes(element);
  if (strokes.length > 0) return strokes;
  return clipsContent(element, style) ? [] : boxesWithin(element, most, () => true);
};

// An element of no size that hides its overflow hides its content. An inline element has no overflow of its own.
const clipsContent = (element, style) => {
  if (style.display === 'contents' || style.display === 'inline') return false;
  const { width, height } = boxOf(element);
  return (width <= 0 && style.overflowX !== 'visible') || (height <= 0 && style.overflowY !== 'visible');
};

const NO_CONTENT = new Set(['audio', 'canvas', 'embed', 'iframe', 'img', 'input', 'object', 'script', 'select', 'style', 'template', 'textarea', 'video']);
const createRange = method(Document.prototype, 'createRange');
const selectNode = method(Range.prototype, 'selectNode');
const rectsOfRange = method(Range.prototype, 'getClientRects');
const textBoxes = (node) => {
  if (!/\S/.test(node.data.slice(0, 1_000))) return [];
  const range = createRange(documentOf(node));
  selectNode(range, node);
  return [...rectsOfRange(range)].filter(hasArea);
};
const contentOf = (element) => {
  const assigned = tagOf(element) === 'slot' && nodeType(rootOf(element)) === 11 ? element.assignedNodes() : [];
  if (assigned.length > 0) return assigned;
  const nodes = [];
  for (let node = firstChildOf(shadowOf(element) ?? element); node && nodes.length < MOST_CONTENT_NODES; node = nextSiblingOf(node)) nodes.push(node);
  return nodes;
};
const boxesWithin = (element, most, isWanted) => {
  const boxes = [];
  const waiting = contentOf(element).reverse().map((node) => [node, element]);
  for (let visited = 0; waiting.length > 0 && boxes.length < most && visited < MOST_CONTENT_NODES; visited++) {
    const [node, parent] = waiting.pop();
    const type = nodeType(node);
    if (type === 3 && getComputedStyle(parent).visibility === 'visible') boxes.push(...textBoxes(node));
    if (type !== 1 || !isWanted(node)) continue;
    const own = checkVisibility(node, { visibilityProperty: true }) ? boxesOf(node) : [];
    const shown = own.length > 0 ? own : strokeBoxes(node);
    boxes.push(...shown);
    if (shown.length > 0 || NO_CONTENT.has(tagOf(node))) continue;
    const style = getComputedStyle(node);
    if (style.display === 'none' || clipsContent(node, style)) continue;
    for (const child of contentOf(node).reverse()) waiting.push([child, node]);
  }
  return boxes.slice(0, most);
};

// A toggle is often reduced to a point or hidden, and its label shows its state. A link or control in the label has its
// own effect.
const SMALLEST_TOGGLE = 4;
const LABEL_CONTROLS = 'a[href], button, input, select, textarea, summary, [onclick], [contenteditable]';
const toggleBoxes = (element, own) => {
  const style = getComputedStyle(element);
  const isCut = /^rect\(/.test(style.clip) || /^(?:inset|circle|polygon)\(/.test(style.clipPath);
  // No scrolling reaches a box before the start of the page.
  const { scrollLeft, scrollTop } = scrollerOf(documentOf(element));
  const isFit = ({ width, height, right, bottom }) =>
    Math.min(width, height) >= SMALLEST_TOGGLE && right + scrollLeft > 0 && bottom + scrollTop > 0;
  const first = isCut || style.pointerEvents === 'none' ? [] : own.filter(isFit);
  const labels = [...(inputLabels(element) ?? [])].slice(0, 10);
  const shown = labels.filter((label) => tagOf(label) === 'label' && isVisible(label));
  const isPlain = (node) => !matches(node, LABEL_CONTROLS);
  const ofLabels = shown.flatMap((label) => [...boxesWithin(label, MOST_BOXES, isPlain), ...boxesOf(label)]);
  const boxes = [...first, ...ofLabels];
  return boxes.length > 0 ? boxes : own;
};

const isInSvg = (element) => namespaceOf(element) === 'http://www.w3.org/2000/svg' && tagOf(element) !== 'svg';

// The shape of an area, in pixels of the displayed picture.
const offsetSize = ['offsetWidth', 'offsetHeight'].map((name) => getter(HTMLElement.prototype, name));
const pictureOf = (area) => {
  const map = closest(area, 'map');
  const name = map && (attributeOf(map, 'name') || attributeOf(map, 'id'));
  if (!name) return undefined;
  return [...queryIn(rootOf(area), 'img[usemap]')].find((image) => attributeOf(image, 'usemap') === `#${name}` && isVisible(image));
};
const areaBoxes = (area) => {
  const picture = pictureOf(area);
  if (!picture) return [];
  const style = getComputedStyle(picture);
  const edge = (side) => (parseFloat(style[`border${side}Width`]) || 0) + (parseFloat(style[`padding${side}`]) || 0);
  const outer = boxOf(picture);
  const [scaleX, scaleY] = [outer.width, outer.height].map((length, i) => length / (offsetSize[i](picture) || length));
  const [width, height] = [outer.width / scaleX - edge('Left') - edge('Right'), outer.height / scaleY - edge('Top') - edge('Bottom')];
  const inPage = ([left, top, right, bottom]) => {
    const [x1, y1, x2, y2] = [Math.max(left, 0), Math.max(top, 0), Math.min(right, width), Math.min(bottom, height)];
    return new DOMRect(outer.left + (edge('Left') + x1) * scaleX, outer.top + (edge('Top') + y1) * scaleY, (x2 - x1) * scaleX, (y2 - y1) * scaleY);
  };
  return shapesOf(area, width, height).map(inPage).filter(hasArea);
};

// Returns rectangles within the shape, as left, top, right and bottom.
const MOST_COORDINATES = 2_000;
const shapesOf = (area, width, height) => {
  const written = (attributeOf(area, 'coords') ?? '').slice(0, 10 * MOST_COORDINATES);
  const points = written.split(/[\s,;]+/).filter(Boolean).slice(0, MOST_COORDINATES).map(parseFloat).map((number) => number || 0);
  const shape = (attributeOf(area, 'shape') ?? 'rect').trim().toLowerCase();
  if (shape === 'default') {
    // Other areas may cover parts of the picture.
    const cell = (i) => [(i % 3) * width / 3, Math.floor(i / 3) * height / 3, (i % 3 + 1) * width / 3, (Math.floor(i / 3) + 1) * height / 3];
    return [4, 0, 1, 2, 3, 5, 6, 7, 8].map(cell);
  }
  if (shape === 'circle' || shape === 'circ') {
    if (points.length < 3) return [];
    const [x, y, radius] = points;
    const half = radius * Math.SQRT1_2;
    return [[x - half, y - half, x + half, y + half]];
  }
  if (shape === 'poly' || shape === 'polygon') return polygonBoxes(points);
  if (points.length < 4) return [];
  const [x1, y1, x2, y2] = points;
  return [[Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)]];
};

// The centre of its bounding box may be outside of it.
const polygonBoxes = (points) => {
  const corners = Array.from({ length: Math.floor(points.length / 2) }, (_, i) => [points[2 * i], points[2 * i + 1]]);
  if (corners.length < 3) return [];
  const heights = corners.map(([, y]) => y);
  const [top, bottom] = [Math.min(...heights), Math.max(...heights)];
  const spans = [];
  for (const share of [0.5, 0.25, 0.75]) {
    const y = top + (bottom - top) * share;
    const crossings = corners.flatMap(([x1, y1], i) => {
      const [x2, y2] = corners[(i + 1) % corners.length];
      return (y1 <= y) === (y2 <= y) ? [] : [x1 + ((y - y1) * (x2 - x1)) / (y2 - y1)];
    });
    crossings.sort((one, other) => one - other);
    for (let i = 0; i + 1 < crossings.length; i += 2) spans.push([crossings[i], y - 0.5, crossings[i + 1], y + 0.5]);
  }
  return spans.sort((one, other) => other[2] - other[0] - (one[2] - one[0])).slice(0, MOST_BOXES);
};

// The engine draws them without boxes, but a hit test finds them. An option that is scrolled out of the list has the box of the
// list.
const optionBoxes = (option, most) => {
  const list = closest(option, 'select');
  if (!list || !(list.multiple || list.size > 1) || !isVisible(list)) return [];
  if (getComputedStyle(option).display === 'none') return [];
  const box = boxOf(list);
  if (most === 1) return [box];
  const x = box.left + Math.min(box.width / 2, 20);
  const rows = [];
  for (let y = Math.max(box.top, 0) + 2; y < Math.min(box.bottom, innerHeight); y += 4) {
    if (hitIn(rootOf(list), x, y) === option) rows.push(y);
  }
  return rows.length > 0 ? [new DOMRect(box.left, rows[0], box.width, rows.at(-1) - rows[0] || 1)] : [box];
};

// A horizontal or vertical line has a box without an area.
const strokeBoxes = (element) => {
  if (!isInSvg(element) || !checkVisibility(element, { visibilityProperty: true })) return [];
  const [box, style] = [boxOf(element), getComputedStyle(element)];
  if (style.stroke === 'none' || hasArea(box) || box.width + box.height === 0) return [];
  const stroke = Math.max(parseFloat(style.strokeWidth) || 0, 1);
  const [width, height] = [box.width || stroke, box.height || stroke];
  return [new DOMRect(box.left - (width - box.width) / 2, box.top - (height - box.height) / 2, width, height)];
};

// Returns the parent of a node: the host of a shadow root, and the frame of a frame's document.
const outside = (node) => parentNodeOf(node) ?? (nodeType(node) === 11 ? node.host : nodeType(node) === 9 ? frameAround(node) : null);

// Client rectangles of a zoomed element are divided by the zoom of it and its ancestors.
const zoomOf = (element) => {
  let zoom = 1;
  for (let node = element; node && nodeType(node) !== 9; node = parentNodeOf(node) ?? node.host) {
    if (nodeType(node) === 1) zoom *= parseFloat(getComputedStyle(node).zoom) || 1;
  }
  return zoom;
};

const scrollerOf = (root) => getter(Document.prototype, 'scrollingElement')(root) ?? documentElement(root);

// Converts a point in a frame's viewport to the viewport of the document around it, through transforms and zoom.
const toOuter = (frame, [x, y]) => {
  const style = getComputedStyle(frame);
  const zoom = zoomOf(frame);
  const [left, top] = [frame.clientLeft + parseFloat(style.paddingLeft), frame.clientTop + parseFloat(style.paddingTop)];
  const onPage = webkitConvertPointFromNodeToPage(frame, new WebKitPoint(left * zoom + x, top * zoom + y));
  const scroller = scrollerOf(documentOf(frame));
  return [onPage.x - scroller.scrollLeft, onPage.y - scroller.scrollTop];
};

// A field that was a password field once stays one, because pages can show a password as text.
const PASSWORD = Symbol.for('kitfleet.password');
const isPassword = (element) => {
  if (tagOf(element) === 'input' && inputType(element) === 'password') element[PASSWORD] = true;
  return element[PASSWORD] === true;
};

// Fields that a recorded picture must not show.
const SENSITIVE = Symbol.for('kitfleet.sensitive');
const SECRET_USES = /^(?:one-time-code|current-password|new-password|cc-.+)$/;
const isSecret = (element) => {
  if (isPassword(element) || element[SENSITIVE] === true) return true;
  const uses = (attributeOf(element, 'autocomplete') ?? '').toLowerCase().split(/\s+/);
  return uses.some((use) => SECRET_USES.test(use)) || !['', 'none'].includes(getComputedStyle(element).webkitTextSecurity ?? '');
};

// True for an element of rich text, or the body of a document in design mode.
const isEditor = (element) => element.isContentEditable === true || documentOf(element).designMode === 'on';

const focused = () => {
  let element = activeIn(document);
  for (;;) {
    const root = element && (shadowOf(element) ?? frameDocument(element));
    const inner = root && activeIn(root);
    // A document without a focused element returns its body, which has the focus only if it is an editor.
    if (!inner || (nodeType(root) === 9 && inner === bodyOf(root) && !isEditor(inner))) return element;
    element = inner;
  }
};

const hasFocus = (element) => {
  for (let node = focused(); node; node = outside(node)) {
    if (node === element) return true;
  }
  return false;
};

// By selector, properties (`targets.js`), or appearance (`looks.js`).
const candidatesFor = (target) => {
  if (target.looks !== undefined) return byLooks(target.looks);
  return target.target === undefined ? queryAll(target) : told(target);
};

// The first visible match of a selector, or the only match by properties.
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
  isEditor(element);

// Chosen with a picker on a phone, with the form of their values in HTML.
const PICKED = {
  color: '#rrggbb', date: 'YYYY-MM-DD', 'datetime-local': 'YYYY-MM-DDThh:mm', month: 'YYYY-MM', range: 'a number', time: 'hh:mm', week: 'YYYY-Www',
};
const isPicked = (element) => tagOf(element) === 'input' && Object.hasOwn(PICKED, element.type);

// True for an element that does not react to a tap because it is disabled, or is inside of a control that is.
const isDisabled = (element) => {
  const control = tagOf(element) === 'label' ? element.control : element;
  if (control && tagOf(control) !== 'fieldset' && matches(control, ':disabled')) return true;
  for (let node = element; node; node = outside(node)) {
    if (nodeType(node) !== 1) continue;
    if (attributeOf(node, 'aria-disabled') === 'true' || (tagOf(node) === 'button' && matches(node, ':disabled'))) return true;
  }
  return false;
};

// Waits for the next frame, or for 50 ms if nothing is drawn.
const frame = () =>
  new Promise((resolve) => {
    requestAnimationFrame(resolve);
    setTimeout(resolve, 50);
  });
