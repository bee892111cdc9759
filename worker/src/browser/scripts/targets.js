// Assigned in this world and document. No element of the page can have this name.
const MEMORY = Symbol.for('kitfleet.refs');
const refs = () => (globalThis[MEMORY] ??= { given: input.refs ?? 0, ofElement: new WeakMap(), elements: new Map() });

const refOf = (element) => {
  const memory = refs();
  let number = memory.ofElement.get(element);
  if (number === undefined) {
    number = ++memory.given;
    memory.ofElement.set(element, number);
    memory.elements.set(number, new WeakRef(element));
  }
  return `e${number}`;
};

const byRef = (ref, field) => {
  const memory = refs();
  const number = Number(ref.slice(1));
  const element = memory.elements.get(number)?.deref();
  if (element && isConnected(element)) return [element];
  if (number < 1 || number > memory.given) throw new Refusal(field, 'is not a ref of a snapshot of this session');
  throw new Gone(field, 'is gone: its element is no longer on the page; take another snapshot');
};

// Compatibility forms, case, and characters that are not shown do not matter. The steps to upper and to lower case together
// fold `ß` and `SS`, and the dotless and the dotted i.
//
// A mark after 30 others is separated from them, because normalization takes quadratic time in the length of such a
// sequence.
const MARKS = /\p{M}{30}(?=\p{M})/gu;
const foldCharacters = (text) => {
  if (/^[\0-\x7F]*$/.test(text)) return text.toLowerCase();
  const shown = text.replace(/\p{Default_Ignorable_Code_Point}/gu, '').replace(MARKS, '$&\u034F');
  return shown.normalize('NFKC').toUpperCase().toLowerCase().replaceAll('i\u0307', 'i').replaceAll('ς', 'σ').replaceAll('\u2010', '-');
};
const fold = (text) => collapse(foldCharacters(text));
const has = (text, words) => fold(text).includes(words);
const is = (text, words) => fold(text) === words;

// In document order, including elements in open shadow roots and in frames. Roots are nested at most this deep.
const DEEPEST_ROOT = 500;
const everyElement = () => {
  const found = [];
  const visit = (root, depth) => {
    for (const element of queryIn(root, '*')) {
      found.push(element);
      const inner = depth < DEEPEST_ROOT && (shadowOf(element) ?? frameDocument(element));
      if (inner) visit(inner, depth + 1);
    }
  };
  visit(document, 0);
  return found;
};

const isSilenced = (element) => {
  for (let node = element; node; node = outside(node)) {
    if (nodeType(node) === 1 && (attributeOf(node, 'aria-hidden') === 'true' || hasAttribute(node, 'inert'))) return true;
  }
  return false;
};

// Fails at the deadline, because an element that was not inspected could be a match.
const deadline = input.within_ms === undefined ? Infinity : Date.now() + input.within_ms;
let looks = 0;
const look = () => {
  if (++looks % 256 === 0 && Date.now() > deadline) throw new Refusal('target', 'cannot be located on this page: it has too many elements');
};

// The visibility is checked last, because it is the most expensive check.
const byRole = (wanted, holds) =>
  everyElement().filter((element) => {
    look();
    const role = roleOf(element);
    return wanted(role) && holds(nameOf(element, role)) && isPresented(element) && !isSilenced(element);
  });

const LABELLED = 'button, input, meter, output, progress, select, textarea, [aria-label], [aria-labelledby]';
const byLabel = (holds) =>
  everyElement().filter((element) => {
    look();
    if (!matches(element, LABELLED)) return false;
    const label = writtenName(element) || labelsOf(element);
    return label !== '' && holds(label) && isPresented(element);
  });

const byPlaceholder = (holds) =>
  everyElement().filter((element) => {
    look();
    const placeholder = attributeOf(element, 'placeholder');
    return placeholder !== null && holds(placeholder.slice(0, 2 * LONGEST_NAME)) && isVisible(element);
  });

// The text of the page is joined once, so that a page of many megabytes is read once.
const byText = (words, holds) => {
  if (words === '') return [];
  const pieces = [];
  const texts = [];
  let [length, isApart] = [0, true];
  const add = (text, node) => {
    if (text === '') return;
    if (node) pieces.push({ start: length, node });
    texts.push(text);
    length += text.length;
    isApart = text.endsWith(' ') || text === '\n';
  };
  // A separator in the joined text: a match never spans it.
  const inside = [{ children: [bodyOf(document)].values(), apart: '' }];
  while (inside.length > 0) {
    const { children, apart } = inside.at(-1);
    const { value: node, done } = children.next();
    if (done) {
      inside.pop();
      add(apart, null);
      continue;
    }
    const type = nodeType(node);
    if (type === 3) {
      const text = foldCharacters(node.data).replace(/\s+/g, ' ');
      add(isApart ? text.trimStart() : text, node);
    }
    if (type !== 1 || SILENT.has(tagOf(node))) continue;
    if (tagOf(node) === 'input' && ['button', 'submit', 'reset'].includes(node.type)) {
      add('\n', null);
      add(fold(node.value), node);
      add('\n', null);
      continue;
    }
    const inner = frameDocument(node);
    if (inner) add('\n', null);
    inside.push(inner ? { children: [bodyOf(inner)].values(), apart: '\n' } : { children: shownChildren(node), apart: '' });
  }
  const all = texts.join('');
  const found = new Set();
  let [from, at] = [0, all.indexOf(words)];
  while (at >= 0) {
    while (from + 1 < pieces.length && pieces[from + 1].start <= at) from++;
    let last = from;
    while (last + 1 < pieces.length && pieces[last + 1].start < at + words.length) last++;
    const element = innermost(pieces[from].node, pieces[last].node);
    if (element) found.add(element);
    // Further matches in the same text node are the same element.
    const next = last === from && pieces[from + 1] ? Math.max(at + 1, pieces[from + 1].start - words.length + 1) : at + 1;
    at = last === from && !pieces[from + 1] ? -1 : all.indexOf(words, next);
  }
  const shown = [...found].filter((element) => (look(), isVisible(element) && getComputedStyle(element).contentVisibility !== 'hidden'));
  const around = new Set();
  for (const element of shown) {
    for (let outer = outerElement(element); outer && !around.has(outer); outer = outerElement(outer)) around.add(outer);
  }
  return shown.filter((element) => !around.has(element) && holds(element));
};

const outerElement = (node) => {
  let outer = outside(node);
  while (outer && nodeType(outer) !== 1) outer = outside(outer);
  return outer;
};

const innermost = (one, other) => {
  const elementOf = (node) => (nodeType(node) === 1 ? node : outerElement(node));
  if (one === other) return elementOf(one);
  const chain = new Set();
  for (let node = elementOf(one); node; node = outerElement(node)) chain.add(node);
  let node = elementOf(other);
  while (node && !chain.has(node)) node = outerElement(node);
  return node;
};

// They are a part of the text, or the whole text in the same case.
const shownText = (text) => collapse(text.replace(/\p{Default_Ignorable_Code_Point}/gu, ''));
const comparison = (value, exact) => {
  if (exact) return (text) => shownText(text) === shownText(value);
  const words = fold(value);
  return (text) => has(text, words);
};

// Words without a character that is shown match nothing.
const byWords = (search, value, exact) => (fold(value) === '' ? [] : search(comparison(value, exact)));

// An element of a ref may be hidden, and a toggle is visible if its label is.
const told = ({ target, field, exact }) => {
  const [[by, value]] = Object.entries(target);
  switch (by) {
    case 'selector':
      return queryAll({ selector: value, field: `${field}.selector` }).filter(isPresented);
    case 'role':
      return byRole((role) => role === value.role, comparison(value.name ?? '', exact && value.name !== null));
    case 'label':
      return byWords(byLabel, value, exact);
    case 'text': {
      const same = comparison(value, true);
      return byText(fold(value), (element) => !exact || same(spoken(element, false) || element.value || ''));
    }
    case 'placeholder':
      return byWords(byPlaceholder, value, exact);
    case 'ref':
      return byRef(value, `${field}.ref`);
  }
};

// Through shadow roots and frames.
const selectorOf = (element) => {
  const root = rootOf(element);
  const host = root === document ? null : outside(root);
  const own = selectorWithin(root, element);
  return host ? `${selectorOf(host)} >>> ${own}` : own;
};

const selectorWithin = (root, element) => {
  const only = (selector) => {
    const found = queryIn(root, selector);
    return found.length === 1 && found[0] === element;
  };
  const quoted = (name) => {
    const value = attributeOf(element, name);
    return value && value.length <= 100 ? `[${name}=${JSON.stringify(value)}]` : '';
  };
  const id = attributeOf(element, 'id');
  const tag = CSS.escape(tagOf(element));
  const named = ['data-testid', 'name', 'aria-label'].map(quoted).filter(Boolean);
  const short = [id && id.length <= 100 ? `#${CSS.escape(id)}` : '', ...named.map((part) => `${tag}${part}`)];
  for (const selector of short) {
    if (selector && only(selector)) return selector;
  }
  const steps = [];
  for (let node = element; node; node = parentElementOf(node)) {
    const around = attributeOf(node, 'id');
    const anchor = node !== element && around && around.length <= 100 ? `#${CSS.escape(around)}` : '';
    if (anchor && queryIn(root, anchor).length === 1) {
      steps.unshift(anchor);
      break;
    }
    const parent = parentNodeOf(node);
    let place = 1;
    for (let before = previousElementOf(node); before; before = previousElementOf(before)) place++;
    steps.unshift(parentElementOf(node) || nodeType(parent) === 11 ? `${CSS.escape(tagOf(node))}:nth-child(${place})` : CSS.escape(tagOf(node)));
  }
  return steps.join(' > ');
};

const describe = (element) => {
  const role = roleOf(element);
  const name = nameOf(element, role) || collapse(spoken(element, false));
  return `${role || 'generic'} ${JSON.stringify(clean(cut(name, 80)))}`;
};

const MOST_CANDIDATES = 5;

const refuseSeveral = (field, elements) => {
  const some = elements.slice(0, MOST_CANDIDATES);
  const candidates = some.map((element) => ({ description: describe(element), selector: clean(selectorOf(element)) }));
  throw new Refusal(field, `must match one element: ${elements.length} match`, { candidates });
};
