// In the order of the extractions. The size of the worker's result, including names, is counted during the collection, so that
// neither side holds more than `input.limit` bytes.
class Overflow {
  constructor(answer) {
    this.answer = answer;
  }
}

let bytes = 2;
const count = (more) => {
  bytes += more;
  if (bytes > input.limit) throw new Overflow({ too_large: { bytes } });
};
const measured = (text) => {
  // A text that is already too long is not copied.
  if (text.length > input.limit) count(text.length);
  const cleaned = clean(text);
  count(jsonSize(cleaned));
  return cleaned;
};
const nothing = () => {
  count(4);
  return null;
};
// The engine leaves out content that it has not laid out because it is far from the viewport (`content-visibility: auto`). Only
// in that case is the text collected here: nothing is changed to make the engine lay it out, because the page could notice.
const textOf = (element) => {
  const whole = contentTextOf(element);
  // Elements of SVG have no `innerText`.
  if (!isHtml(element)) return whole.trim();
  const text = renderedTextOf(element);
  return (leavesOut(element, text, whole) ? collected(element) : text).trim();
};
const inked = (text) => text.replace(/\s+/g, '').length;
const skips = (element) => getComputedStyle(element).contentVisibility === 'auto';
const leavesOut = (element, text, whole) => {
  if (!checkVisibility(element)) return getComputedStyle(element).display === 'contents';
  // A text without hidden parts has all characters, and `text-transform` only adds some.
  if (text.length >= whole.length || inked(text) >= inked(whole)) return false;
  if (!checkVisibility(element, { contentVisibilityAuto: true }) || skips(element)) return true;
  for (const inner of queryIn(element, '*')) {
    if (skips(inner)) return true;
  }
  return false;
};

const NO_TEXT = new Set(['audio', 'canvas', 'embed', 'iframe', 'img', 'input', 'option', 'optgroup', 'select', 'template', 'textarea', 'video']);
const slotOf = { 1: getter(Element.prototype, 'assignedSlot'), 3: getter(Text.prototype, 'assignedSlot') };
const isOpen = getter(HTMLDetailsElement.prototype, 'open');
const collected = (root) => {
  const parts = [];
  let [breaks, space, atStart] = [0, false, true];
  let ending = 0;
  const put = (part) => {
    if (breaks > ending && parts.length > 0) parts.push('\n'.repeat(breaks - ending));
    else if (space && !atStart) parts.push(' ');
    parts.push(part);
    const added = part.match(/\n{0,2}$/)[0].length;
    ending = added === part.length ? Math.max(breaks, ending) + added : added;
    [breaks, space, atStart] = [0, false, /[\n\t]$/.test(part)];
  };
  const separate = (count) => {
    breaks = Math.max(breaks, count);
    [space, atStart] = [false, true];
  };
  const say = (node, style) => {
    if (style.visibility !== 'visible') return;
    let text = node.data;
    if (!['', 'none'].includes(style.webkitTextSecurity ?? '')) text = '•'.repeat(text.length);
    const keepsSpaces = /^(?:pre|pre-wrap|break-spaces)$/.test(style.whiteSpace) || /^pre(?:serve)?(?: nowrap| wrap)?$/.test(style.whiteSpace);
    if (keepsSpaces) {
      if (text !== '') put(transformed(text, style));
      return;
    }
    const lines = style.whiteSpace === 'pre-line' ? text.split('\n') : [text];
    lines.forEach((line, i) => {
      if (i > 0) put('\n');
      const words = line.replace(/[ \t\n\r\f]+/g, ' ');
      if (words.startsWith(' ')) space = true;
      const shown = words.replace(/^ | $/g, '');
      if (shown === '') return;
      put(transformed(shown, style));
      space = words.length > 1 && words.endsWith(' ');
    });
  };
  const inside = [];
  const leave = ({ after, cell }) => {
    if (after > 0) separate(after);
    if (cell && breaks === 0) put(cell);
  };
  const enter = (element, isRoot) => {
    const tag = tagOf(element);
    const style = getComputedStyle(element);
    const { display } = style;
    if (display === 'none') return;
    if (tag === 'br') {
      space = false;
      return put('\n');
    }
    const isAside = style.float !== 'none' || ['absolute', 'fixed'].includes(style.position);
    const isInline = isAside || display.startsWith('inline') || display === 'contents' || display.startsWith('ruby');
    if (NO_TEXT.has(tag) && !isRoot) {
      // Spaces on both sides of a picture or field are not joined.
      if (isInline) put('');
      return;
    }
    const isCell = display === 'table-cell';
    const isPart = isCell || /^table-/.test(display) && display !== 'table-caption';
    const around = isRoot || isInline || isPart ? 0 : hasSpaceBelow(element, tag, style) ? 2 : 1;
    if (around > 0) separate(1);
    if (!isRoot && display === 'table-row') separate(1);
    const cell = isCell && !isRoot && nextCell(element) ? '\t' : '';
    const nodes = style.contentVisibility === 'hidden' ? [] : [...lightChildren(element, tag)];
    inside.push({ nodes: nodes.values(), style, after: display === 'table-row' && !isRoot ? 1 : around, cell });
  };
  enter(root, true);
  while (inside.length > 0) {
    const { nodes, style } = inside.at(-1);
    const { value: node, done } = nodes.next();
    if (done) {
      leave(inside.pop());
      continue;
    }
    const type = nodeType(node);
    if (type === 3) say(node, style);
    if (type === 1) enter(node, false);
  }
  return parts.join('');
};

const nextCell = (element) => {
  for (let next = nextSiblingOf(element); next; next = nextSiblingOf(next)) {
    if (nodeType(next) === 1 && getComputedStyle(next).display === 'table-cell') return true;
  }
  return false;
};

// A paragraph or heading with a margin has an empty line after it.
const hasSpaceBelow = (element, tag, style) =>
  /^(?:p|h[1-6])$/.test(tag) && parseFloat(style.marginBottom) * 2 >= parseFloat(style.fontSize);

// Those with a slot if the element has a shadow root.
const lightChildren = function* (element, tag) {
  const isClosed = tag === 'details' && !isOpen(element);
  const hasShadow = shadowOf(element) !== null;
  for (let node = firstChildOf(element); node; node = nextSiblingOf(node)) {
    const type = nodeType(node);
    if (hasShadow && (type === 1 || type === 3) && !slotOf[type](node)) continue;
    if (!isClosed || (type === 1 && tagOf(node) === 'summary')) yield node;
  }
};

const transformed = (text, { textTransform }) => {
  switch (textTransform) {
    case 'uppercase':
      return text.toUpperCase();
    case 'lowercase':
      return text.toLowerCase();
    case 'capitalize':
      return text.replace(/(?<![\p{L}\p{M}\p{N}'’])\p{L}/gu, (letter) => letter.toUpperCase());
    default:
      return text;
  }
};

// Language of an element: of the nearest `lang`, else of the document, else of the browser. `null` if it is not written.
const DOCUMENT_LANGUAGES = new WeakMap();
const documentLanguage = (root) => {
  if (!DOCUMENT_LANGUAGES.has(root)) {
    const [meta] = queryIn(root, 'meta[http-equiv="content-language" i]');
    DOCUMENT_LANGUAGES.set(root, meta ? attributeOf(meta, 'content') : null);
  }
  return DOCUMENT_LANGUAGES.get(root);
};
const languageOf = (element) => {
  for (let node = element; node; node = outside(node)) {
    const type = nodeType(node);
    if (type === 9) return documentLanguage(node);
    const language = type === 1 ? (attributeOf(node, 'lang') ?? attributeOf(node, 'xml:lang')) : null;
    if (language !== null) return language;
  }
  return null;
};

// Separators of a language with the digits 0 to 9, by the data of CLDR in the engine.
const LONGEST_LANGUAGE = 35;
const MOST_LANGUAGES = 100;
const SEPARATORS = new Map();
const separatorsIn = (language) => {
  try {
    if (Intl.NumberFormat.supportedLocalesOf([language]).length === 0) return null;
    const parts = new Intl.NumberFormat(language, { numberingSystem: 'latn', useGrouping: 'always' }).formatToParts(12345678.5);
    const part = (wanted) => parts.find(({ type }) => type === wanted)?.value ?? '';
    return { decimal: part('decimal'), group: part('group') };
  } catch {
    // The page can write anything as its language.
    return null;
  }
};
const separatorsOf = (element) => {
  const written = (languageOf(element) ?? '').trim().slice(0, LONGEST_LANGUAGE).replaceAll('_', '-');
  const known = SEPARATORS.get(written);
  if (known) return known;
  const found = separatorsIn(written) ?? separatorsIn(written.split('-')[0]) ?? separatorsIn(navigator.language) ?? { decimal: '.', group: ',' };
  if (SEPARATORS.size < MOST_LANGUAGES) SEPARATORS.set(written, found);
  return found;
};

// In the viewport of the page: the smallest box around the corners, through frames, transforms and zoom. An element without a
// box of its own has the one around its content. `null` if it is not rendered.
const pageBoxOf = (element) => {
  const own = [...rectsOf(element)].length > 0 ? [boxOf(element)] : contentBoxes(element, MOST_BOXES);
  if (own.length === 0) return null;
  let corners = own.flatMap(({ left, top, right, bottom }) => [[left, top], [right, top], [left, bottom], [right, bottom]]);
  corners = corners.map(inViewport(element));
  for (let frame = frameOf(element); frame; frame = frameOf(frame)) {
    if ([...rectsOf(frame)].length === 0) return null;
    corners = corners.map((corner) => toOuter(frame, corner));
  }
  const [left, right] = [Math.min, Math.max].map((most) => most(...corners.map(([x]) => x)));
  const [top, bottom] = [Math.min, Math.max].map((most) => most(...corners.map(([, y]) => y)));
  const box = { x: left, y: top, width: right - left, height: bottom - top };
  return Object.values(box).every(Number.isFinite) ? box : null;
};

// `null` for an element that is no field, for a toggle that is off, and for a password.
const heldBy = (element) => {
  const field = tagOf(element) === 'label' ? element.control : element;
  if (!field) return null;
  const isShownAsDots = !['', 'none'].includes(getComputedStyle(field).webkitTextSecurity ?? '');
  const isRemembered = /\b(?:current|new)-password\b/i.test(attributeOf(field, 'autocomplete') ?? '');
  if (isPassword(field) || isShownAsDots || isRemembered) return null;
  switch (tagOf(field)) {
    case 'input':
      if (field.type === 'file') return [...field.files].map((file) => file.name).join('\n');
      return ['checkbox', 'radio'].includes(field.type) && !field.checked ? null : field.value;
    case 'select':
      return [...field.selectedOptions].map((option) => option.value).join('\n');
    case 'textarea':
    case 'output':
      return field.value;
    default:
      return isEditor(field) ? textOf(field) : null;
  }
};

const read = (element, { take, attribute, number }) => {
  if (element && take === 'box') {
    const box = pageBoxOf(element);
    if (!box) return nothing();
    count(jsonSize(box));
    return box;
  }
  const text = element && (take === 'attribute' ? attributeOf(element, attribute) : take === 'value' ? heldBy(element) : textOf(element));
  if (typeof text !== 'string') return nothing();
  const value = measured(text);
  return number ? { text: value, ...separatorsOf(element) } : value;
};
const within = (element, part) => {
  count(part.name_bytes);
  // The match itself is not inside of the match.
  return read(part.selector.trim() === ':scope' ? element : guarded(part.field, () => queryIn(element, part.selector)[0]), part);
};

const valueOf = (extraction) => {
  count(extraction.name_bytes);
  // An invalid selector is rejected even when nothing matches.
  for (const part of extraction.parts ?? []) guarded(part.field, () => queryIn(createFragment(document), part.selector));
  const found = candidatesFor(extraction.target);
  if (extraction.take === 'box') return { box: read(found[0], extraction) };
  if (extraction.take !== 'list') return { [extraction.number ? 'number' : 'one']: read(found[0], extraction) };
  if (found.length > input.matches) throw new Overflow({ too_many: { matches: found.length } });
  if (!extraction.parts) {
    const { attribute, number } = extraction;
    const take = attribute ? 'attribute' : 'text';
    return { [number ? 'numbers' : 'list']: Array.from(found, (match) => (count(1), read(match, { take, attribute, number }))) };
  }
  return { objects: Array.from(found, (match) => (count(3), extraction.parts.map((part) => within(match, part)))) };
};

try {
  return { values: input.extractions.map(valueOf) };
} catch (error) {
  if (!(error instanceof Overflow)) throw error;
  return error.answer;
}
