// Text snapshot of the page, with one line for each relevant element and each text. Texts of the page are JSON strings,
// so that they cannot imitate a line of the snapshot. With `input.plain`, it has neither values of fields nor refs.
const LONGEST = { name: 200, text: 500, value: 100 };
const MOST_OPTIONS = 50;
const DEEPEST = 20;
const deadline = performance.now() + input.within_ms;

// Roles that add nothing to their content.
const PLAIN = new Set(['paragraph', 'rowgroup', 'blockquote', 'time', 'caption']);
// Roles whose name is repeated in the following content.
const UNNAMED = new Set(['cell', 'gridcell', 'row']);

const lines = [];
const foreign = [];
let depthOfForeign = 0;
let characters = 0;
let truncated = false;
const emit = (depth, line) => {
  const whole = '  '.repeat(Math.min(depth, DEEPEST)) + line;
  truncated ||= lines.length >= input.nodes || characters + whole.length + 1 > input.characters;
  if (truncated) return;
  lines.push(whole);
  if (depthOfForeign > 0) foreign.push(whole);
  characters += whole.length + 1;
};
const quoted = (text, most) => JSON.stringify(clean(cut(text, most)));

let text = '';
let textDepth = 0;
const say = (more, depth) => {
  if (text.trim() === '') textDepth = depth;
  if (text.length < 2 * LONGEST.text) text += more;
};
const flush = () => {
  const said = collapse(text);
  text = '';
  if (said) emit(textDepth, `text ${quoted(said, LONGEST.text)}`);
};

const TOGGLES = Object.entries({ pressed: ['true', 'mixed'], expanded: ['true', 'false'], selected: ['true'], checked: ['true', 'mixed'] });
const CONTROLS = new Set(['button', 'fieldset', 'input', 'optgroup', 'option', 'select', 'textarea']);
const statesOf = (element, role) => {
  const states = [];
  const tag = tagOf(element);
  const state = (name, value) => states.push(value === undefined ? `[${name}]` : `[${name}=${value}]`);
  const control = CONTROLS.has(tag);
  const aria = attributeNames(element).some((name) => name.startsWith('aria-'));
  const says = (name) => aria && attributeOf(element, `aria-${name}`) === 'true';
  const level = role === 'heading' ? (attributeOf(element, 'aria-level') ?? tag.match(/^h([1-6])$/)?.[1]) : undefined;
  if (level !== undefined && /^[1-9]$/.test(level)) state('level', level);
  if (tag === 'input' && ['checkbox', 'radio'].includes(element.type)) {
    if (element.indeterminate) state('checked', 'mixed');
    else if (element.checked) state('checked');
  }
  if (tag === 'option' && element.selected) state('selected');
  if (tag === 'summary') state('expanded', parentElementOf(element).open);
  for (const [name, known] of aria ? TOGGLES : []) {
    const value = attributeOf(element, `aria-${name}`);
    if (known.includes(value)) state(name, value === 'true' && name !== 'expanded' ? undefined : value);
  }
  if ((control && matches(element, ':disabled')) || says('disabled')) state('disabled');
  if ((control && matches(element, ':required')) || says('required')) state('required');
  if (says('invalid')) state('invalid');
  if (control && element.readOnly === true && takesText(element)) state('readonly');
  if (element === focusedElement) state('focused');
  const value = input.plain ? '' : shownValue(element, tag, role);
  if (value) state('value', quoted(collapse(value), LONGEST.value));
  return states.length > 0 ? ` ${states.join(' ')}` : '';
};
const shownValue = (element, tag, role) => {
  if (tag === 'select') return collapse([...element.selectedOptions].slice(0, 5).map((option) => option.label).join(', '));
  if (tag === 'textarea' || (tag === 'input' && (takesText(element) || isPicked(element)))) {
    return valueOf(element).slice(0, 2 * LONGEST.value);
  }
  if (tag === 'progress' || tag === 'meter') return String(element.value);
  if (role === 'textbox' && isEditingHost(element)) return spoken(element, false);
  if (['slider', 'spinbutton', 'progressbar', 'scrollbar'].includes(role)) {
    return (attributeOf(element, 'aria-valuetext') ?? attributeOf(element, 'aria-valuenow') ?? '').slice(0, 2 * LONGEST.value);
  }
  return '';
};
const focusedElement = focused();

const optionsOf = (element, depth) => {
  const options = [...element.options];
  for (const option of options.slice(0, MOST_OPTIONS)) {
    emit(depth, `option ${quoted(collapse(option.label), LONGEST.name)}${statesOf(option, 'option')}`);
  }
  if (options.length > MOST_OPTIONS) emit(depth, `… ${options.length - MOST_OPTIONS} more options`);
};

// It has no role.
const isTouchable = (element, style) => {
  if (hasAttribute(element, 'onclick') || /^\s*\d/.test(attributeOf(element, 'tabindex') ?? '')) return true;
  const around = parentElementOf(element);
  return style.cursor === 'pointer' && Boolean(around) && getComputedStyle(around).cursor !== 'pointer';
};

// Of the shown elements.
const MOST_LINKS = 500;
const LONGEST_LINK = 2_048;
const links = new Set();
const noteLink = (element) => {
  const { href } = element;
  if (typeof href !== 'string' || href.length > LONGEST_LINK || links.size >= MOST_LINKS) return;
  if (/^https?:/.test(href)) links.add(clean(href));
};

// From the body to the current node. Each entry has the remaining children.
const inside = [];
const descend = (children, depth, named, shown, ends, isForeign = false) => {
  inside.push({ children, depth, named, shown, ends, isForeign });
  if (isForeign) depthOfForeign++;
};
// Areas of a picture and hidden toggles have no box, but a user sees the picture and the label.
const enter = (element, depth, named) => {
  const tag = tagOf(element);
  if (SILENT.has(tag) || attributeOf(element, 'aria-hidden') === 'true' || hasAttribute(element, 'inert')) return;
  const style = getComputedStyle(element);
  const isOutlined = (tag === 'area' || isToggle(element)) && isPresented(element);
  if (style.display === 'none' && !isOutlined) return;
  if (tag === 'br') return say(' ', depth);
  const shown = style.visibility === 'visible' || isOutlined;
  const block = !style.display.startsWith('inline') && style.display !== 'contents';
  let role = roleOf(element);
  const own = tag !== 'label' && role === '' && shown && !named && isTouchable(element, style) && element !== bodyOf(document);
  if (own) role = 'generic';
  const emits = role !== '' && shown && !PLAIN.has(role) && (isOutlined || hasBox(element));
  const ends = block || emits;
  if (ends) flush();
  if (!emits) {
    if (style.contentVisibility !== 'hidden') descend(shownChildren(element), depth, named, shown, ends);
    return;
  }
  const whole = UNNAMED.has(role) ? writtenName(element) : nameOf(element, role) || (isFrame(element) && collapse(attributeOf(element, 'name') ?? ''));
  // A long content is not used as the name, because it follows anyway.
  const name = ['generic', 'heading'].includes(role) && whole.length > LONGEST.name ? '' : whole;
  emit(depth, `${role}${name ? ` ${quoted(name, LONGEST.name)}` : ''}${input.plain ? '' : ` [ref=${refOf(element)}]`}${statesOf(element, role)}`);
  if (input.links && (tag === 'a' || tag === 'area') && hasAttribute(element, 'href')) noteLink(element);
  if (tag === 'select') return optionsOf(element, depth + 1);
  if (['input', 'textarea', 'img', 'svg'].includes(tag) || (role === 'textbox' && isEditingHost(element))) return;
  if (isFrame(element)) {
    const inner = frameDocument(element);
    if (inner && bodyOf(inner)) descend([bodyOf(inner)].values(), depth + 1, false, true, true, !element.contentDocument);
    return;
  }
  if (style.contentVisibility !== 'hidden') descend(shownChildren(element), depth + 1, named || (FROM_CONTENT.has(role) && name !== ''), shown, true);
};

descend([bodyOf(document)].values(), 0, false, true, true);
for (let visited = 0; inside.length > 0 && !truncated; visited++) {
  if (visited % 64 === 0 && performance.now() > deadline) truncated = true;
  const { children, depth, named, shown, ends, isForeign } = inside.at(-1);
  const { value: node, done } = children.next();
  if (done) {
    inside.pop();
    if (ends) flush();
    if (isForeign) depthOfForeign--;
    continue;
  }
  const type = nodeType(node);
  if (type === 3 && shown && !named) say(node.data.slice(0, 2 * LONGEST.text), depth);
  if (type === 1) enter(node, depth, named);
}
flush();
return { snapshot: lines.join('\n'), nodes: lines.length, truncated, links: [...links], foreign: input.links ? foreign.join('\n') : '', given: refs().given };
