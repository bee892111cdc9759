// Focuses `input.target` and places the caret after its text, or selects the text if it is to be replaced.
const element = find(input.target);
if (!element) return false;
if (!hasFocus(element)) element.focus({ preventScroll: true });
if (!hasFocus(element)) return false;
if (tagOf(element) === 'select') return true;

const selection = () => documentOf(element).getSelection();
if (tagOf(element) === 'input' || tagOf(element) === 'textarea') {
  if (input.replace) {
    element.select();
  } else {
    try {
      element.setSelectionRange(element.value.length, element.value.length);
    } catch {
      // Fields for addresses and numbers do not support a selection by script.
      selection().modify('move', 'forward', 'documentboundary');
    }
  }
} else {
  selection().selectAllChildren(element);
  if (!input.replace) selection().collapseToEnd();
}
return true;
