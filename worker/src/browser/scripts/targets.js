// Which elements a caller means.

// Of this world and document: which elements were given refs. It has no name that a page's element could have.
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

// A ref that was given and is good no longer.
class Gone extends Refusal {}

const byRef = (ref, field) => {
  const memory = refs();
  const number = Number(ref.slice(1));
  const element = memory.elements.get(number)?.deref();
  if (element && isConnected(element)) return [element];
  if (number < 1 || number > memory.given) throw new Refusal(field, 'is no ref of a snapshot of this session');
  throw new Gone(field, 'is gone: its element is no longer on the page; take another snapshot');
};

const fold = (text) => collapse(text).toLowerCase();
const has = (text, words) => fold(text).includes(words);
const is = (text, words) => fold(text) === words;

// Every element of the page in its order, those in open shadow roots and in frames of its origin too.
const everyElement = () => {
  const found = [];
  const roots = [document];
  const visit = (root) => {
    for (const element of queryIn(root, '*')) {
      found.push(element);
      const inner = shadowOf(element) ?? frameDocument(element);
      if (inner) visit(inner);
    }
  };
  roots.forEach(visit);
  return found;
};

const isSilenced = (element) => {
  for (let node = element; node; node = outside(node)) {
    if (nodeType(node) === 1 && (attributeOf(node, 'aria-hidden') === 'true' || hasAttribute(node, 'inert'))) return true;
  }
  return false;
};

const byRole = (wanted, holds) =>
  everyElement().filter((element) => {
    const role = roleOf(element);
    return wanted(role) && isVisible(element) && holds(nameOf(element, role)) && !isSilenced(element);
  });

const LABELLED = 'button, input, meter, output, progress, select, textarea, [aria-label], [aria-labelledby]';
const byLabel = (holds) =>
  everyElement().filter((element) => {
    if (!matches(element, LABELLED)) return false;
    const label = writtenName(element) || labelsOf(element);
    return label !== '' && holds(label) && isVisible(element);
  });

const byPlaceholder = (holds) =>
  everyElement().filter((element) => {
    const placeholder = attributeOf(element, 'placeholder');
    return placeholder !== null && holds(placeholder.slice(0, 2 * LONGEST_NAME)) && isVisible(element);
  });

// The innermost elements that say so. The text of the page is put together once, whatever elements it is in, so that a page of
// many megabytes is read once.
const byText = (words, holds) => {
  const pieces = [];
  let all = '';
  const stack = [bodyOf(document)];
  while (stack.length > 0) {
    const node = stack.pop();
    if (node === '\n') {
      all += '\n';
      continue;
    }
    const type = nodeType(node);
    if (type === 3) {
      let text = node.data.replace(/\s+/g, ' ').toLowerCase();
      if (all.endsWith(' ') || all === '') text = text.trimStart();
      if (text === '') continue;
      pieces.push({ start: all.length, node });
      all += text;
    }
    if (type !== 1 || SILENT.has(tagOf(node))) continue;
    if (tagOf(node) === 'input' && ['button', 'submit', 'reset'].includes(node.type)) {
      all += '\n';
      pieces.push({ start: all.length, node });
      all += `${fold(node.value)}\n`;
      continue;
    }
    const inner = frameDocument(node);
    if (inner) {
      all += '\n';
      stack.push('\n', bodyOf(inner));
      continue;
    }
    pushReversed(stack, shownChildren(node), (child) => child);
  }
  const found = new Set();
  let [from, at] = [0, all.indexOf(words)];
  while (at >= 0) {
    while (from + 1 < pieces.length && pieces[from + 1].start <= at) from++;
    let last = from;
    while (last + 1 < pieces.length && pieces[last + 1].start < at + words.length) last++;
    const element = innermost(pieces[from].node, pieces[last].node);
    if (element) found.add(element);
    // Once more in the same text is the same element.
    const next = last === from && pieces[from + 1] ? Math.max(at + 1, pieces[from + 1].start - words.length + 1) : at + 1;
    at = last === from && !pieces[from + 1] ? -1 : all.indexOf(words, next);
  }
  const shown = [...found].filter(isVisible);
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

// The innermost element that two nodes are in.
const innermost = (one, other) => {
  const elementOf = (node) => (nodeType(node) === 1 ? node : outerElement(node));
  if (one === other) return elementOf(one);
  const chain = new Set();
  for (let node = elementOf(one); node; node = outerElement(node)) chain.add(node);
  let node = elementOf(other);
  while (node && !chain.has(node)) node = outerElement(node);
  return node;
};

// What `target` tells an element by: only what can be seen, but for a ref.
const told = ({ target, field }) => {
  const [[by, value]] = Object.entries(target);
  switch (by) {
    case 'selector':
      return queryAll({ selector: value, field: `${field}.selector` }).filter(isVisible);
    case 'role': {
      const words = value.name === null ? '' : fold(value.name);
      return byRole((role) => role === value.role, (name) => has(name, words));
    }
    case 'label':
      return byLabel((label) => has(label, fold(value)));
    case 'text':
      return byText(fold(value), () => true);
    case 'placeholder':
      return byPlaceholder((placeholder) => has(placeholder, fold(value)));
    case 'ref':
      return byRef(value, `${field}.ref`);
  }
};

// A selector that means this element alone, through shadow roots and frames.
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
    const place = 1 + [...childNodesOf(parent)].filter((child) => nodeType(child) === 1).indexOf(node);
    steps.unshift(parentElementOf(node) || nodeType(parent) === 11 ? `${CSS.escape(tagOf(node))}:nth-child(${place})` : CSS.escape(tagOf(node)));
  }
  return steps.join(' > ');
};

const describe = (element) => {
  const role = roleOf(element);
  const name = role ? nameOf(element, role) : collapse(spoken(element, false));
  return `${role || 'generic'} ${JSON.stringify(clean(cut(name, 80)))}`;
};

const MOST_CANDIDATES = 5;

// What a target can mean: by a selector of the caller's, by what it is, or as a field known by its looks.
const candidatesFor = (target) => {
  if (target.looks !== undefined) return byLooks(target.looks);
  return target.target === undefined ? queryAll(target) : told(target);
};

// The one element that is meant. Of a selector that is the first that can be seen; of a target there may be only one.
const find = (target) => {
  const candidates = candidatesFor(target);
  if (target.target !== undefined && candidates.length > 1) {
    const some = candidates.slice(0, MOST_CANDIDATES).map((element) => ({ description: describe(element), selector: clean(selectorOf(element)) }));
    throw new Refusal(target.field, `must mean one element: ${candidates.length} match`, { candidates: some });
  }
  return candidates.find(isVisible) ?? candidates[0];
};
