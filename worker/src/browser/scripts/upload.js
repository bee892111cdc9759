// A user can reach a file input that is hidden by its label or by a script, so a hidden one is accepted too.
//
// The engine counts only the beginning of a command as an action of a user, so nothing is awaited before the click.
const { target } = input.target;
const element = find(input.target) ?? (target?.selector === undefined ? undefined : queryAll({ selector: target.selector, field: input.target.field })[0]);
if (!element) return { state: 'absent' };
if (tagOf(element) !== 'input' || inputType(element) !== 'file') return { state: 'other' };
if (isDisabled(element)) return { state: 'disabled' };
const multiple = getter(HTMLInputElement.prototype, 'multiple')(element);
if (input.opens) method(HTMLElement.prototype, 'click')(element);
return { state: 'input', multiple };
