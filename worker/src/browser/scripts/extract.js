// Reads a batch of values. Names stay with the worker: the answer has the order of the question. Null once the texts
// are larger than `input.limit` characters in all.
let left = input.limit;
const measured = (text) => {
  left -= text.length;
  return clean(text);
};
const textOf = (element) => measured((element.innerText ?? element.textContent ?? '').trim());
const read = (element, { take, attribute }) => {
  if (!element) return null;
  if (take !== 'attribute') return textOf(element);
  const value = element.getAttribute(attribute);
  return value === null ? null : measured(value);
};
const within = (element, part) => read(guarded(part.field, () => element.querySelector(part.selector)), part);

const values = input.extractions.map((extraction) => {
  // An invalid selector is one also where nothing matches.
  for (const part of extraction.parts ?? []) guarded(part.field, () => document.createDocumentFragment().querySelector(part.selector));
  const matches = queryAll(extraction);
  if (extraction.take !== 'list') return read(matches[0], extraction);
  return matches
    .filter(() => left > 0)
    .map((match) => extraction.parts?.map((part) => within(match, part)) ?? textOf(match));
});
return left < 0 ? null : values;
