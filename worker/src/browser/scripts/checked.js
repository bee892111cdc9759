// `null` for a mixed state.
const ROLES_OF_TOGGLES = ['checkbox', 'menuitemcheckbox', 'menuitemradio', 'radio', 'switch'];
const element = find(input.target);
if (!element) return { state: 'absent' };
if (!isPresented(element)) return { state: 'hidden' };
const control = tagOf(element) === 'label' && element.control ? element.control : element;
const role = (attributeOf(control, 'role') ?? '').toLowerCase();
if (isToggle(control) && inputType(control) === 'file') {
  throw new Refusal(input.target.field, 'must not be a file input, which takes files by the action upload');
}
const isNative = isToggle(control);
if (!isNative && !ROLES_OF_TOGGLES.includes(role)) {
  throw new Refusal(input.target.field, 'must be a checkbox, a switch or a radio button');
}
const isRadio = isNative ? control.type === 'radio' : role.endsWith('radio');
if (isRadio && !input.checked) throw new Refusal('action.checked', 'must be true: a radio button is unchecked by another one');
const said = attributeOf(control, 'aria-checked');
const checked = isNative ? (control.indeterminate ? null : control.checked) : said === 'mixed' ? null : said === 'true';
return { state: 'known', checked };
