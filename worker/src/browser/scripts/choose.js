// Chooses `input.option` in the menu `input.target` once it is available, and fires the events of a user's choice.
const element = find(input.target);
if (!element) return 'absent';
if (tagOf(element) !== 'select') throw new Refusal(input.target.field, 'must be a select element');
if (!isVisible(element)) return 'hidden';

const options = [...element.options];
const labelOf = (option) => collapse(option.label);
const wanted = collapse(input.option);
const option = options.find((option) => option.value === input.option) ?? options.find((option) => labelOf(option) === wanted);
if (!option) {
  const some = options.slice(0, 100).map((option) => ({ value: clean(cut(option.value, 200)), label: clean(cut(labelOf(option), 200)) }));
  throw new Refusal('action.option', 'must be the value or the label of one of its options', { options: some });
}
if (matches(element, ':disabled') || matches(option, ':disabled')) return 'locked';

element.focus({ preventScroll: true });
if (!option.selected) {
  if (element.multiple) option.selected = true;
  else element.selectedIndex = option.index;
  element.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  element.dispatchEvent(new Event('change', { bubbles: true }));
}
return 'done';
