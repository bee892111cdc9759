// Sets the value of a field with a picker, and fires the events of a user's change. The text of other fields was inserted
// before, and has fired `input`.
const element = find(input.target);
if (!element) return { state: 'absent' };
if (!isVisible(element)) return { state: 'hidden' };
if (isDisabled(element) || element.readOnly) return { state: 'locked' };

const isText = tagOf(element) === 'input' || tagOf(element) === 'textarea';
if (isPicked(element)) {
  const form = PICKED[element.type];
  const refuse = () => {
    throw new Refusal(input.field, `must be a value of a field of the type ${element.type}: ${form}`, { type: element.type });
  };
  const before = element.value;
  const isNumber = /^-?(\d+|\d*\.\d+)(e[-+]?\d+)?$/i.test(input.value);
  if (element.type === 'range' && !isNumber) refuse();
  if (element.type === 'color' && !/^#[0-9a-f]{6}$/i.test(input.value)) refuse();
  // An engine stores an empty text for a value that is not of the form.
  element.value = input.value;
  if (element.value === '' && input.value !== '') {
    element.value = before;
    refuse();
  }
  if (element.type === 'range' && Number(element.value) !== Number(input.value)) {
    const nearest = element.value;
    element.value = before;
    throw new Refusal(input.field, `must be a value that the range takes: the nearest is ${nearest}`);
  }
  element.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
} else if (isText) {
  const before = element[Symbol.for('kitfleet.before')];
  if (element.type === 'number' && element.validity.badInput) {
    // The field shows the text, but its value is empty.
    element.value = before ?? '';
    throw new Refusal(input.field, 'must be a number');
  }
  // A page that cancels `beforeinput` keeps the field as it was.
  const isKept = element.value === before && element.value !== input.value;
  if (isKept && !element[Symbol.for('kitfleet.changed')]) {
    throw new Refusal(input.field, 'was not inserted, because the page has prevented it');
  }
}
if (isText) {
  element.dispatchEvent(new Event('change', { bubbles: true }));
}
return { state: 'done' };
