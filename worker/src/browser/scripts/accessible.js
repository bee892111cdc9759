// WAI-ARIA and accname define roles and names for HTML.

// In characters.
const LONGEST_NAME = 1_000;

const ROLE_OF_TAG = {
  article: 'article', aside: 'complementary', blockquote: 'blockquote', button: 'button', caption: 'caption', dd: 'definition',
  details: 'group', dialog: 'dialog', dt: 'term', fieldset: 'group', figure: 'figure', frame: 'iframe', h1: 'heading',
  h2: 'heading', h3: 'heading', h4: 'heading', h5: 'heading', h6: 'heading', hr: 'separator', iframe: 'iframe', li: 'listitem',
  main: 'main', math: 'math', menu: 'list', meter: 'meter', nav: 'navigation', ol: 'list', optgroup: 'group', option: 'option',
  output: 'status', p: 'paragraph', progress: 'progressbar', search: 'search', table: 'table', tbody: 'rowgroup', td: 'cell',
  textarea: 'textbox', tfoot: 'rowgroup', thead: 'rowgroup', time: 'time', tr: 'row', ul: 'list',
};

const ROLE_OF_INPUT = {
  button: 'button', checkbox: 'checkbox', color: 'button', file: 'button', hidden: '', image: 'button', number: 'spinbutton',
  radio: 'radio', range: 'slider', reset: 'button', search: 'searchbox', submit: 'button',
};

const FROM_CONTENT = new Set([
  'button', 'caption', 'cell', 'checkbox', 'columnheader', 'generic', 'gridcell', 'heading', 'link', 'menuitem', 'menuitemcheckbox',
  'menuitemradio', 'option', 'radio', 'row', 'rowheader', 'switch', 'tab', 'tooltip', 'treeitem',
]);

const roleOf = (element) => {
  const written = attributeOf(element, 'role');
  if (written !== null) {
    for (const role of written.slice(0, 200).toLowerCase().split(/\s+/)) {
      if (ROLES.has(role)) return role;
      if (role === 'image') return 'img';
      if (role === 'none' || role === 'presentation') return '';
    }
  }
  return ownRole(element);
};

const ownRole = (element) => {
  const tag = tagOf(element);
  switch (tag) {
    case 'a':
    case 'area':
      return hasAttribute(element, 'href') ? 'link' : '';
    case 'input':
      return ROLE_OF_INPUT[element.type] ?? (hasAttribute(element, 'list') ? 'combobox' : 'textbox');
    case 'select':
      return element.multiple || element.size > 1 ? 'listbox' : 'combobox';
    case 'img':
      return attributeOf(element, 'alt') === '' && !hasAttribute(element, 'title') ? '' : 'img';
    case 'svg':
      return writtenName(element) || titleOfSvg(element) ? 'img' : '';
    case 'header':
    case 'footer':
      if (closest(element, 'article, aside, main, nav, section')) return '';
      return tag === 'header' ? 'banner' : 'contentinfo';
    case 'form':
    case 'section':
      if (!writtenName(element) && !hasAttribute(element, 'title')) return '';
      return tag === 'form' ? 'form' : 'region';
    case 'summary':
      return parentElementOf(element) && tagOf(parentElementOf(element)) === 'details' ? 'button' : '';
    case 'th':
      return attributeOf(element, 'scope') === 'row' ? 'rowheader' : 'columnheader';
    default: {
      const role = ROLE_OF_TAG[tag];
      if (role) return role;
      return isEditingHost(element) ? 'textbox' : '';
    }
  }
};

const isEditingHost = (element) => {
  const written = attributeOf(element, 'contenteditable');
  return written !== null && written.toLowerCase() !== 'false';
};

// A password, or a value that is shown as dots, is replaced.
const valueOf = (element) => {
  const secret = isPassword(element) || !['', 'none'].includes(getComputedStyle(element).webkitTextSecurity ?? '');
  const remembered = /\b(current-password|new-password|one-time-code|cc-number|cc-csc)\b/i.test(attributeOf(element, 'autocomplete') ?? '');
  if (secret || remembered) return element.value === '' ? '' : '•••';
  return element.value;
};

const writtenName = (element) => {
  const written = attributeOf(element, 'aria-labelledby');
  if (written) {
    const ids = written.slice(0, LONGEST_NAME).split(/\s+/).filter(Boolean).slice(0, 10);
    const root = rootOf(element);
    const find = nodeType(root) === 9 ? method(Document.prototype, 'getElementById') : method(DocumentFragment.prototype, 'getElementById');
    const named = [9, 11].includes(nodeType(root)) ? ids.map((id) => find(root, id)).filter(Boolean) : [];
    const name = collapse(named.map((other) => attributeOf(other, 'aria-label') || attributeOf(other, 'alt') || spoken(other, true)).join(' '));
    if (name) return name;
  }
  const label = attributeOf(element, 'aria-label');
  return label ? collapse(label.slice(0, 2 * LONGEST_NAME)) : '';
};

const childOf = (element, tag) => {
  for (const child of childrenOf(element)) {
    if (tagOf(child) === tag) return child;
  }
  return null;
};

const titleOfSvg = (element) => {
  const title = childOf(element, 'title');
  return title ? collapse(title.textContent.slice(0, LONGEST_NAME)) : '';
};

// `labels` of each control would search the page every time, so the labels of a document or a shadow root are collected at
// once.
const LABELS = new WeakMap();
const LABELLED_BY = new Set(['button', 'input', 'meter', 'output', 'progress', 'select', 'textarea']);
const labelsOf = (element) => {
  if (!LABELLED_BY.has(tagOf(element))) return '';
  const root = rootOf(element);
  if (nodeType(root) === 1) return '';
  let labels = LABELS.get(root);
  if (!labels) {
    labels = new Map();
    for (const label of queryIn(root, 'label')) {
      const control = label.control;
      if (control) labels.set(control, [...(labels.get(control) ?? []), label]);
    }
    LABELS.set(root, labels);
  }
  const own = labels.get(element);
  return own ? collapse(own.slice(0, 10).map((label) => attributeOf(label, 'aria-label') || spoken(label, false)).join(' ')) : '';
};

// By rules of HTML itself.
const nativeName = (element) => {
  const tag = tagOf(element);
  const part = (wanted) => {
    const child = childOf(element, wanted);
    return child ? collapse(spoken(child, false)) : '';
  };
  switch (tag) {
    case 'input': {
      if (['button', 'submit', 'reset'].includes(element.type)) {
        return labelsOf(element) || collapse(element.value.slice(0, LONGEST_NAME)) || { submit: 'Submit', reset: 'Reset' }[element.type] || '';
      }
      if (element.type === 'image') return labelsOf(element) || collapse(attributeOf(element, 'alt') ?? '');
      return labelsOf(element);
    }
    case 'img':
    case 'area':
      return collapse((attributeOf(element, 'alt') ?? '').slice(0, LONGEST_NAME));
    case 'svg':
      return titleOfSvg(element);
    case 'fieldset':
      return part('legend');
    case 'table':
      return part('caption');
    case 'figure':
      return part('figcaption');
    default:
      return labelsOf(element);
  }
};

const nameOf = (element, role = roleOf(element)) => {
  const told = writtenName(element) || nativeName(element) || (FROM_CONTENT.has(role) ? collapse(spoken(element, false)) : '');
  if (told) return cut(told, LONGEST_NAME);
  const rest = attributeOf(element, 'title') || attributeOf(element, 'placeholder') || attributeOf(element, 'aria-placeholder') || '';
  return cut(collapse(rest.slice(0, 2 * LONGEST_NAME)), LONGEST_NAME);
};

const SILENT = new Set(['head', 'noscript', 'script', 'style', 'template', 'datalist', 'object', 'title']);

// In display order: those of the shadow root, and the assigned nodes of a slot.
const shownChildren = function* (element) {
  const tag = tagOf(element);
  if (tag === 'slot' && nodeType(rootOf(element)) === 11) {
    const assigned = element.assignedNodes();
    if (assigned.length > 0) return yield* assigned;
  }
  const isClosed = tag === 'details' && !element.open;
  for (let child = firstChildOf(shadowOf(element) ?? element); child; child = nextSiblingOf(child)) {
    if (!isClosed || (nodeType(child) === 1 && tagOf(child) === 'summary')) yield child;
  }
};

// Up to the length of a name. Hidden parts are skipped, unless `hiddenToo` is set, which is for elements that a label
// references by ID. Values of fields are skipped.
const spoken = (root, hiddenToo) => {
  const only = firstChildOf(root);
  if (only && nodeType(only) === 3 && !nextSiblingOf(only) && !shadowOf(root)) return only.data.slice(0, 2 * LONGEST_NAME);
  let text = '';
  const inside = [{ children: shownChildren(root), apart: false }];
  for (let nodes = 0; inside.length > 0 && text.length < 2 * LONGEST_NAME && nodes < 5_000; nodes++) {
    const { children, apart } = inside.at(-1);
    const { value: node, done } = children.next();
    if (done) {
      inside.pop();
      if (apart) text += ' ';
      continue;
    }
    const type = nodeType(node);
    if (type === 3) text += node.data.slice(0, 2 * LONGEST_NAME);
    if (type !== 1) continue;
    const tag = tagOf(node);
    if (SILENT.has(tag) || ['input', 'select', 'textarea', 'iframe'].includes(tag)) continue;
    if (!hiddenToo && attributeOf(node, 'aria-hidden') === 'true') continue;
    const style = getComputedStyle(node);
    if (!hiddenToo && (style.display === 'none' || style.visibility !== 'visible' || style.contentVisibility === 'hidden')) continue;
    const name = attributeOf(node, 'aria-label') || (tag === 'img' ? attributeOf(node, 'alt') : tag === 'svg' ? titleOfSvg(node) : '');
    if (name) {
      text += ` ${name.slice(0, LONGEST_NAME)} `;
      continue;
    }
    const isApart = tag === 'br' || (!style.display.startsWith('inline') && style.display !== 'contents');
    if (isApart) text += ' ';
    inside.push({ children: shownChildren(node), apart: isApart });
  }
  return text.slice(0, 2 * LONGEST_NAME);
};
