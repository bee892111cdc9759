// Gives `input.target` the focus, unless a tap has done so, and selects its text if it is to be replaced. After a tap the
// caret stays where the page has put it.
const element = find(input.target);
if (!element) return false;
const isField = tagOf(element) === 'input' || tagOf(element) === 'textarea';
const selection = () => documentOf(element).getSelection();

// A page may move the caret to another field while a text is typed. Those are marked by the host's listener.
const shared = globalThis[Symbol.for('kitfleet.shared')];
shared.sensitive = input.sensitive === true;
if (input.sensitive) {
  element[SENSITIVE] = true;
  shared.hadSecrets = true;
  (shared.secrets ??= new Set()).add(new WeakRef(element));
}

if (!hasFocus(element)) {
  element.focus({ preventScroll: true });
  if (!hasFocus(element)) return false;
  if (isField) {
    try {
      element.setSelectionRange(element.value.length, element.value.length);
    } catch {
      // Fields for addresses and numbers do not support a selection by script.
      selection().modify('move', 'forward', 'documentboundary');
    }
  } else if (isEditor(element)) {
    selection().selectAllChildren(element);
    selection().collapseToEnd();
  }
}
element[Symbol.for('kitfleet.entered')] = true;
if (input.replace) {
  if (isField) {
    element[Symbol.for('kitfleet.before')] = element.value;
    element[Symbol.for('kitfleet.changed')] = false;
    element.select();
  }
  else if (tagOf(element) !== 'select') selection().selectAllChildren(element);
}
return true;
