// What elements are to those who cannot see them: their roles and names, as WAI-ARIA and accname have them for HTML.

// Characters of a name, beyond which nobody reads.
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

// What stands in a field, unless it is hidden from whoever looks: a password, or what is shown as dots.
const valueOf = (element) => {
  const secret = element.type === 'password' || !['', 'none'].includes(getComputedStyle(element).webkitTextSecurity ?? '');
  const remembered = /\b(current-password|new-password|one-time-code|cc-number|cc-csc)\b/i.test(attributeOf(element, 'autocomplete') ?? '');
  if (secret || remembered) return element.value === '' ? '' : '•••';
  return element.value;
};

const writtenName = (element) => {
  const ids = (attributeOf(element, 'aria-labelledby') ?? '').slice(0, LONGEST_NAME).split(/\s+/).filter(Boolean).slice(0, 10);
  if (ids.length > 0) {
    const root = rootOf(element);
    const find = nodeType(root) === 9 ? method(Document.prototype, 'getElementById') : method(DocumentFragment.prototype, 'getElementById');
    const named = [9, 11].includes(nodeType(root)) ? ids.map((id) => find(root, id)).filter(Boolean) : [];
    const name = collapse(named.map((other) => attributeOf(other, 'aria-label') || attributeOf(other, 'alt') || spoken(other, true)).join(' '));
    if (name) return name;
  }
  return collapse((attributeOf(element, 'aria-label') ?? '').slice(0, 2 * LONGEST_NAME));
};

const titleOfSvg = (element) => {
  const title = [...childNodesOf(element)].find((child) => nodeType(child) === 1 && tagOf(child) === 'title');
  return title ? collapse(title.textContent.slice(0, LONGEST_NAME)) : '';
};

const labelsOf = (element) => {
  const labels = ['button', 'input', 'meter', 'output', 'progress', 'select', 'textarea'].includes(tagOf(element)) ? element.labels : null;
  return labels ? collapse([...labels].slice(0, 10).map((label) => spoken(label, false)).join(' ')) : '';
};

// What HTML itself names an element by.
const nativeName = (element) => {
  const tag = tagOf(element);
  const part = (wanted) => {
    const child = [...childNodesOf(element)].find((child) => nodeType(child) === 1 && tagOf(child) === wanted);
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

// The children of an element as they are shown: of one with a shadow root that root's, and in a slot what was put there.
const shownChildren = (element) => {
  const shadow = shadowOf(element);
  if (shadow) return childNodesOf(shadow);
  if (tagOf(element) === 'slot' && nodeType(rootOf(element)) === 11) {
    const assigned = element.assignedNodes();
    if (assigned.length > 0) return assigned;
  }
  if (tagOf(element) === 'details' && !element.open) {
    return [...childNodesOf(element)].filter((child) => nodeType(child) === 1 && tagOf(child) === 'summary');
  }
  return childNodesOf(element);
};

const pushReversed = (stack, nodes, entry) => {
  for (let i = nodes.length - 1; i >= 0; i--) stack.push(entry(nodes[i]));
};

// What an element says, up to the length of a name. What does not show says nothing, unless all of it is hidden and asked for by
// name. What stands in fields is not said.
const spoken = (root, hiddenToo) => {
  let text = '';
  const stack = [];
  const itself = (node) => node;
  pushReversed(stack, shownChildren(root), itself);
  let nodes = 0;
  while (stack.length > 0 && text.length < 2 * LONGEST_NAME && nodes++ < 5_000) {
    const node = stack.pop();
    if (node === ' ') {
      text += ' ';
      continue;
    }
    const type = nodeType(node);
    if (type === 3) text += node.data.slice(0, 2 * LONGEST_NAME);
    if (type !== 1) continue;
    const tag = tagOf(node);
    if (SILENT.has(tag) || ['input', 'select', 'textarea', 'iframe'].includes(tag)) continue;
    if (tag === 'br') {
      text += ' ';
      continue;
    }
    if (attributeOf(node, 'aria-hidden') === 'true' && !hiddenToo) continue;
    const style = getComputedStyle(node);
    if (!hiddenToo && (style.display === 'none' || style.visibility !== 'visible')) continue;
    const name = attributeOf(node, 'aria-label') || (tag === 'img' ? attributeOf(node, 'alt') : tag === 'svg' ? titleOfSvg(node) : '');
    if (name) {
      text += ` ${name.slice(0, LONGEST_NAME)} `;
      continue;
    }
    const apart = !style.display.startsWith('inline') && style.display !== 'contents';
    if (apart) {
      text += ' ';
      stack.push(' ');
    }
    pushReversed(stack, shownChildren(node), itself);
  }
  return text.slice(0, 2 * LONGEST_NAME);
};
