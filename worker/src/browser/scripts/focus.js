// Gives `input.target` the focus and puts the caret behind its text, or selects the text to be replaced.
const element = find(input.target);
if (!element) return false;
if (!hasFocus(element)) element.focus({ preventScroll: true });
if (!hasFocus(element)) return false;
if (element instanceof HTMLSelectElement) return true;

if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) {
  if (input.replace) {
    element.select();
  } else {
    try {
      element.setSelectionRange(element.value.length, element.value.length);
    } catch {
      // Fields for addresses and numbers have no selection that a script could set.
      getSelection().modify('move', 'forward', 'documentboundary');
    }
  }
} else {
  getSelection().selectAllChildren(element);
  if (!input.replace) getSelection().collapseToEnd();
}
return true;
