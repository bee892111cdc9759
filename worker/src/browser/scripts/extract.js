// Reads a batch of values in the order of the extractions. The worker adds the names. The size of the worker's result,
// including names, is counted during the collection, so that neither side holds more than `input.limit` bytes.
class Overflow {
  constructor(answer) {
    this.answer = answer;
  }
}

let bytes = 2;
const count = (more) => {
  bytes += more;
  if (bytes > input.limit) throw new Overflow({ too_large: { bytes } });
};
const measured = (text) => {
  // A text that is already too long is not copied.
  if (text.length > input.limit) count(text.length);
  const cleaned = clean(text);
  count(jsonSize(cleaned));
  return cleaned;
};
const nothing = () => {
  count(4);
  return null;
};
const textOf = (element) => measured((element.innerText ?? element.textContent ?? '').trim());
const read = (element, { take, attribute }) => {
  if (!element) return nothing();
  if (take !== 'attribute') return textOf(element);
  const value = attributeOf(element, attribute);
  return value === null ? nothing() : measured(value);
};
const within = (element, part) => {
  count(part.name_bytes);
  return read(guarded(part.field, () => queryIn(element, part.selector)[0]), part);
};

const valueOf = (extraction) => {
  count(extraction.name_bytes);
  // An invalid selector is rejected even when nothing matches.
  for (const part of extraction.parts ?? []) guarded(part.field, () => queryIn(createFragment(document), part.selector));
  const found = candidatesFor(extraction.target);
  if (extraction.take !== 'list') return { one: read(found[0], extraction) };
  if (found.length > input.matches) throw new Overflow({ too_many: { matches: found.length } });
  if (!extraction.parts) {
    const take = extraction.attribute ? 'attribute' : 'text';
    return { list: Array.from(found, (match) => (count(1), read(match, { take, attribute: extraction.attribute }))) };
  }
  return { objects: Array.from(found, (match) => (count(3), extraction.parts.map((part) => within(match, part)))) };
};

try {
  return { values: input.extractions.map(valueOf) };
} catch (error) {
  if (!(error instanceof Overflow)) throw error;
  return error.answer;
}
