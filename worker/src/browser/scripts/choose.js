// Only available options, with the events of a user's choice. In a menu with multiple selection a single option is added, and a
// list replaces the selection.
const element = find(input.target);
if (!element) return { state: 'absent' };
if (tagOf(element) !== 'select') throw new Refusal(input.target.field, 'must be a select element');
if (!isVisible(element)) return { state: 'hidden' };
if (input.options.length > 1 && !element.multiple) throw new Refusal('action.options', 'must be one option: the menu takes no more');

const options = [...element.options];
const labelOf = (option) => collapse(option.label);
const optionOf = (wanted) =>
  options.find((option) => option.value === wanted) ?? options.find((option) => labelOf(option) === collapse(wanted));
const chosen = input.options.map(optionOf);
if (chosen.includes(undefined)) {
  const some = options.slice(0, 100).map((option) => ({ value: clean(cut(option.value, 200)), label: clean(cut(labelOf(option), 200)) }));
  return { state: 'missing', options: some };
}
if (isDisabled(element) || chosen.some((option) => matches(option, ':disabled'))) return { state: 'locked' };

element.focus({ preventScroll: true });
const before = options.map((option) => option.selected);
if (!element.multiple) element.selectedIndex = chosen[0].index;
else if (input.is_list) options.forEach((option) => { option.selected = chosen.includes(option); });
else chosen[0].selected = true;
if (options.some((option, index) => option.selected !== before[index])) {
  element.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  element.dispatchEvent(new Event('change', { bubbles: true }));
}
return { state: 'done' };
