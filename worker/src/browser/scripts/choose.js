// Chooses `input.option` in the menu `input.target` if it is available, and fires the events of a user's choice.
const element = find(input.target);
if (!element) return { state: 'absent' };
if (tagOf(element) !== 'select') throw new Refusal(input.target.field, 'must be a select element');
if (!isVisible(element)) return { state: 'hidden' };

const options = [...element.options];
const labelOf = (option) => collapse(option.label);
const wanted = collapse(input.option);
const option = options.find((option) => option.value === input.option) ?? options.find((option) => labelOf(option) === wanted);
if (!option) {
  const some = options.slice(0, 100).map((option) => ({ value: clean(cut(option.value, 200)), label: clean(cut(labelOf(option), 200)) }));
  return { state: 'missing', options: some };
}
if (matches(element, ':disabled') || matches(option, ':disabled')) return { state: 'locked' };

element.focus({ preventScroll: true });
if (!option.selected) {
  if (element.multiple) option.selected = true;
  else element.selectedIndex = option.index;
  element.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  element.dispatchEvent(new Event('change', { bubbles: true }));
}
return { state: 'done' };
