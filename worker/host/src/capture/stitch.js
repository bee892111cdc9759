// Prepares the page for one part of a stitched picture. Returns the scroll position in CSS pixels. `input` is `{ top, part }`.
// `part` is `first`, `middle` or `last`, or `end` to restore the page.
//
// Elements that are attached to the viewport appear once: those in its upper half in the first part, and those in its lower
// half in the last part. Sticky elements appear at their place in the page. A sheet in `adoptedStyleSheets` does this, so no
// attribute changes, and the page's observers of mutations see nothing.
const KEY = Symbol.for('kitfleet.stitching');
const MOST_ELEMENTS = 50_000;
const MOST_ATTACHED = 1_000;
/** In milliseconds, for each part. */
const FRAME_WITHIN = 100;
/** In milliseconds, for all later frames of a busy machine. */
const LATE_FRAMES_WITHIN = 3_000;
/** In milliseconds, for the scans of all parts. */
const SCANS_WITHIN = 5_000;

/** `sheets`: the sheet of each document and shadow root. `elements`: what is done to each element, by kind. `lateness`:
 * duration of the waits for late frames in milliseconds. `scanTime`: duration of the scans in milliseconds. */
const state = (globalThis[KEY] ??= { sheets: new Map(), elements: new Map(), lateness: 0, scanTime: 0 });

/** The parent in the flat tree. */
const parentOf = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;

/** A selector that matches only this element in its document or shadow root. */
const selectorOf = (element) => {
  const steps = [];
  let node = element;
  for (; node !== document.documentElement && node; node = node.parentElement) {
    let index = 1;
    for (let other = node; (other = other.previousElementSibling); ) index++;
    steps.unshift(`:nth-child(${index})`);
  }
  const start = node ? ':root' : ':host';
  // The negation gives the selector a specificity above that of the page's selectors.
  return [start, ...steps].join(' > ') + ':not(#_#_#_)';
};

/** True for an ancestor that fixed descendants are attached to, instead of the viewport. */
const holdsFixed = (style) =>
  [style.transform, style.translate, style.rotate, style.scale, style.perspective, style.filter, style.backdropFilter].some(
    (value) => value && value !== 'none',
  ) ||
  /transform|translate|rotate|scale|perspective|filter/.test(style.willChange) ||
  /paint|layout|strict|content/.test(style.contain) ||
  style.contentVisibility === 'auto';

/** True for an open dialog or popover, which no ancestor holds. An old WebKit does not know the selector. */
const isOnTop = (element) => {
  try {
    return element.matches(':modal, :popover-open');
  } catch {
    return false;
  }
};

const isAttached = (element) => {
  if (isOnTop(element)) return true;
  for (let node = parentOf(element); node && node !== document.documentElement; node = parentOf(node)) {
    if (holdsFixed(getComputedStyle(node))) return false;
  }
  return true;
};

/** True when a sticky element sticks to the viewport, and not to the edge of an element that scrolls. */
const sticksToViewport = (element) => {
  for (let node = parentOf(element); node && node !== document.body && node !== document.documentElement; node = parentOf(node)) {
    const { overflowX, overflowY } = getComputedStyle(node);
    if (/auto|scroll|hidden|overlay/.test(`${overflowX} ${overflowY}`)) return false;
  }
  return true;
};

/** Looks for elements that are attached to the viewport. A page may attach more of them as it scrolls. */
const scan = () => {
  for (const [element, kinds] of state.elements) {
    const isFixed = kinds.has('head') || kinds.has('foot');
    if (!element.isConnected || (isFixed && getComputedStyle(element).position !== 'fixed')) state.elements.delete(element);
  }
  const note = (element, kind) => {
    const kinds = state.elements.get(element);
    if (kinds) kinds.add(kind);
    else if (state.elements.size < MOST_ATTACHED) state.elements.set(element, new Set([kind]));
  };
  for (const element of [document.documentElement, document.body]) {
    for (const pseudo of ['::before', '::after']) {
      if (element && getComputedStyle(element, pseudo).position === 'fixed') note(element, pseudo);
    }
  }
  const rest = [document.documentElement];
  for (let count = 0; rest.length > 0 && count < MOST_ELEMENTS; count++) {
    const element = rest.pop();
    const style = getComputedStyle(element);
    if (style.display === 'none') continue;
    if (style.backgroundAttachment.includes('fixed')) note(element, 'background');
    if (style.position === 'fixed' && isAttached(element)) {
      const known = state.elements.get(element);
      if (!known?.has('head') && !known?.has('foot')) {
        const { top, bottom } = element.getBoundingClientRect();
        note(element, top + bottom > innerHeight ? 'foot' : 'head');
      }
      continue;
    }
    if (style.position.endsWith('sticky') && sticksToViewport(element)) note(element, 'sticky');
    for (const child of element.children) rest.push(child);
    for (const child of element.shadowRoot?.children ?? []) rest.push(child);
  }
};

/** Replaces the rules in each document and shadow root. */
const apply = (rulesOf) => {
  const texts = new Map([[document, ':root, body { scroll-snap-type: none !important; overflow-anchor: none !important; }\n']]);
  for (const [element, kinds] of state.elements) {
    if (!element.isConnected) continue;
    const root = element.getRootNode();
    const selector = selectorOf(element);
    // Without this, a page's transition would show an element that disappears or appears in between.
    let text = `${selector} { transition: none !important; }\n`;
    for (const kind of kinds) text += rulesOf(kind, selector);
    texts.set(root, (texts.get(root) ?? '') + text);
  }
  for (const root of state.sheets.keys()) if (!texts.has(root)) texts.set(root, '');
  for (const [root, text] of texts) {
    let sheet = state.sheets.get(root);
    if (!sheet) {
      sheet = new CSSStyleSheet();
      state.sheets.set(root, sheet);
    }
    sheet.replaceSync(text);
    const others = [...root.adoptedStyleSheets].filter((other) => other !== sheet);
    root.adoptedStyleSheets = [...others, sheet];
  }
  // The rules take effect now, while no element has a transition.
  for (const element of state.elements.keys()) void getComputedStyle(element).opacity;
};

const rules = (kind, selector) => {
  switch (kind) {
    case 'background':
      return `${selector} { background-attachment: scroll !important; }\n`;
    case 'sticky':
      return `${selector} { position: relative !important; inset: auto !important; }\n`;
    case 'foot':
      return input.part === 'last' ? '' : `${selector} { opacity: 0 !important; }\n`;
    case 'head':
      return input.part === 'first' ? '' : `${selector} { opacity: 0 !important; }\n`;
    default:
      return input.part === 'first' ? '' : `${selector}${kind} { opacity: 0 !important; }\n`;
  }
};

if (input.part === 'end') {
  apply(() => '');
  for (const [root, sheet] of state.sheets) {
    root.adoptedStyleSheets = [...root.adoptedStyleSheets].filter((other) => other !== sheet);
  }
  delete globalThis[KEY];
  return scrollY;
}
apply(rules);
scrollTo({ left: 0, top: input.top, behavior: 'instant' });
// The page's listeners may attach or detach elements now.
const scrolled = performance.now();
await new Promise((done) => {
  requestAnimationFrame(() => setTimeout(done));
  setTimeout(done, FRAME_WITHIN + Math.max(0, LATE_FRAMES_WITHIN - state.lateness));
});
const drawn = performance.now();
state.lateness += Math.max(0, drawn - scrolled - FRAME_WITHIN);
// A page whose scans are slow is not scanned for each part.
if (input.part !== 'middle' || state.scanTime < SCANS_WITHIN) {
  scan();
  state.scanTime += performance.now() - drawn;
}
apply(rules);
return scrollY;
