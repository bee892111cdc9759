// Returns the first elements that a description matches, with the properties that decide about an approval. KINDS maps a kind
// of control in a description to its roles, and WORDS maps other words to a kind.
const KINDS = {
  textbox: ['textbox', 'searchbox', 'spinbutton', 'combobox'],
  searchbox: ['searchbox', 'textbox', 'combobox'],
  combobox: ['combobox', 'listbox'],
  listbox: ['listbox', 'combobox'],
  checkbox: ['checkbox', 'switch', 'menuitemcheckbox'],
  radio: ['radio', 'menuitemradio'],
  button: ['button'],
};
const WORDS = {
  field: 'textbox', input: 'textbox', box: 'textbox', 'text field': 'textbox', 'text box': 'textbox', search: 'searchbox',
  dropdown: 'combobox', 'drop-down': 'combobox', select: 'combobox', menu: 'combobox', image: 'img', picture: 'img',
  'radio button': 'radio', 'check box': 'checkbox', toggle: 'switch', title: 'heading',
};
const CONTROLS = new Set([
  'button', 'checkbox', 'combobox', 'generic', 'link', 'listbox', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'radio',
  'searchbox', 'slider', 'spinbutton', 'switch', 'tab', 'textbox', 'treeitem',
]);

const described = ({ role, words }) => {
  const wanted = fold(words);
  const called = role === null ? '' : fold(role);
  const kind = WORDS[called] ?? called;
  const roles = ROLES.has(kind) ? new Set(KINDS[kind] ?? [kind]) : null;
  if (wanted === '') return roles ? byRole((role) => roles.has(role), () => true) : [];
  const tiers = [];
  const exactly = (text) => is(text, wanted);
  const partly = (text) => has(text, wanted);
  for (const holds of [exactly, partly]) {
    if (roles) tiers.push(() => byRole((role) => roles.has(role), holds));
  }
  for (const holds of [exactly, partly]) {
    tiers.push(
      () => byRole((role) => CONTROLS.has(role), holds),
      () => byLabel(holds),
      () => byPlaceholder(holds),
      () => byText(wanted, (element) => holds === partly || holds(spoken(element, false) || element.value || '')),
    );
  }
  for (const tier of tiers) {
    const found = tier();
    if (found.length > 0) return found;
  }
  return [];
};

const sought = () => {
  if (input.by === 'focused') {
    const element = focused();
    return element && element !== bodyOf(documentOf(element)) && element !== documentElement(documentOf(element)) ? [element] : [];
  }
  if (input.by.described !== undefined) return described(input.by.described);
  try {
    return told(input.target).filter(isPresented);
  } catch (error) {
    if (error instanceof Gone) return [];
    throw error;
  }
};

const formAction = getter(HTMLFormElement.prototype, 'action');
const controlOf = (element) => {
  for (let node = element; node; node = outerElement(node)) {
    if (['button', 'input'].includes(tagOf(node))) return node;
    if (tagOf(node) === 'label' && node.control) return node.control;
  }
  return null;
};
const submits = (control) => control !== null && ['submit', 'image'].includes(control.type) && Boolean(control.form);

// Rules of HTML: Enter presses the form's first submit control, or submits a form without one if it has a single field.
const submitsByEnter = (element) => {
  if (tagOf(element) !== 'input' || ['button', 'submit', 'reset', 'image', 'hidden'].includes(element.type) || !element.form) return false;
  const controls = [...getter(HTMLFormElement.prototype, 'elements')(element.form)];
  const button = controls.find((control) => submits(control));
  if (button) return !button.disabled;
  return controls.filter((control) => tagOf(control) === 'input' && takesText(control)).length <= 1;
};

const isChecked = (element, control, role) => {
  if (control && ['checkbox', 'radio'].includes(control.type)) return control.indeterminate ? null : control.checked;
  if (!['checkbox', 'menuitemcheckbox', 'menuitemradio', 'radio', 'switch'].includes(role)) return null;
  const said = attributeOf(element, 'aria-checked') ?? 'false';
  return said === 'mixed' ? null : said === 'true';
};

// The page controls all of these texts, including that of the control around the element.
const ACTS = 'button, a, label, summary, option, [onclick], [role=button], [role=link], [role=tab], [role=menuitem], [role=option], [role=checkbox], [role=radio], [role=switch]';
const LONGEST_AROUND = 200;
const generated = (element, part) => {
  const content = getComputedStyle(element, part).content;
  return content && content.startsWith('"') ? content.slice(1, -1) : '';
};
const isPressed = (element) => tagOf(element) === 'input' && (['button', 'submit', 'reset'].includes(element.type) || (element.readOnly && element.type !== 'password'));
const textOf = (element, name) => {
  const says = ['aria-label', 'title', 'alt', 'placeholder'].map((attribute) => attributeOf(element, attribute) ?? '');
  says.push(spoken(element, false), isPressed(element) ? element.value : '', generated(element, '::before'), generated(element, '::after'));
  let around = outerElement(element);
  while (around && !matches(around, ACTS)) around = outerElement(around);
  if (around) says.push(...[nameOf(around), spoken(around, false)].filter((text) => text.length <= LONGEST_AROUND));
  const lines = says.map((text) => clean(cut(collapse(text.slice(0, 2 * LONGEST_NAME)), LONGEST_NAME)));
  return [...new Set(lines)].filter((line) => line !== '' && line !== name).join('\n');
};

// The page's own origin stands for those of documents that it can reach.
const addressOf = getter(Document.prototype, 'URL');
const originIn = (owner) => {
  if (!isForeign(owner)) return location.origin;
  try {
    return new URL(addressOf(owner)).origin;
  } catch {
    return 'null';
  }
};

const sizeOf = (element) => {
  const { width, height } = boxOf(element);
  return [width, height].map((side) => Math.min(Math.max(Math.round(side), 0), 1_000_000));
};

const matchOf = (element) => {
  const role = roleOf(element);
  const name = role ? nameOf(element, role) : cut(collapse(spoken(element, false)), LONGEST_NAME);
  const control = controlOf(element);
  const form = control?.form ?? closest(element, 'form');
  const action = form ? [hasAttribute(form, 'action') ? formAction(form) : '', attributeOf(form, 'method') ?? ''] : [];
  const ownAction = control && hasAttribute(control, 'formaction') ? control.formAction : '';
  return {
    selector: clean(selectorOf(element)),
    description: describe(element),
    role: role || 'generic',
    name: clean(name),
    text: textOf(element, clean(name)),
    submits: submits(control),
    form_field: submitsByEnter(element),
    checked: isChecked(element, control, role),
    size: sizeOf(element),
    traits: [tagOf(element), attributeOf(element, 'type') ?? '', role, name, ...action, ownAction, originIn(documentOf(element))].map((text) => clean(text.slice(0, 2 * LONGEST_NAME))),
  };
};

const found = sought();
// The document of a focused frame of another origin receives the keys.
const isForeignFrame = (element) => isFrame(element) && !(frameDocument(element) && !isForeign(frameDocument(element)));
const isOutside = found.some((element) => isForeign(documentOf(element)) || (input.by === 'focused' && isForeignFrame(element)));
return { matches: found.slice(0, MOST_CANDIDATES).map(matchOf), total: found.length, origin: isOutside ? 'null' : location.origin };
