// Scrolls `input.target` into view, in each area, frame and page around it, and returns its box in CSS pixels of the page's
// viewport. With `input.ends`, restores the scroll positions instead.
const SAVED = Symbol.for('kitfleet.picture');
const restore = () => {
  for (const { area, left, top } of globalThis[SAVED] ?? []) area.scrollTo({ left, top, behavior: 'instant' });
  delete globalThis[SAVED];
};
if (input.ends) {
  restore();
  return { state: 'done' };
}

const element = find(input.target);
if (!element) return { state: 'absent' };
// The box of an element without a box of its own is that of its content.
const bounds = () => {
  const own = boxOf(element);
  const boxes = hasArea(own) && checkVisibility(element, { visibilityProperty: true }) ? [own] : contentBoxes(element, MOST_BOXES);
  if (boxes.length === 0) return null;
  const [left, top] = ['left', 'top'].map((side) => Math.min(...boxes.map((box) => box[side])));
  const [right, bottom] = ['right', 'bottom'].map((side) => Math.max(...boxes.map((box) => box[side])));
  let corners = [[left, top], [right, top], [left, bottom], [right, bottom]].map(inViewport(element));
  for (let frame = frameOf(element); frame; frame = frameOf(frame)) corners = corners.map((corner) => toOuter(frame, corner));
  const [xs, ys] = [corners.map(([x]) => x), corners.map(([, y]) => y)];
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
};
if (!isVisible(element) || !bounds()) return { state: 'hidden' };

const MOST_AREAS = 1_000;
const saved = [];
const save = (area) => saved.push({ area, left: area.scrollLeft, top: area.scrollTop });
for (let node = outside(element); node && saved.length < MOST_AREAS; node = outside(node)) {
  if (nodeType(node) === 9) save(scrollerOf(node));
  else if (nodeType(node) === 1 && (node.scrollLeft !== 0 || node.scrollTop !== 0 || node.scrollHeight > node.clientHeight || node.scrollWidth > node.clientWidth)) save(node);
}
globalThis[SAVED] = saved;

const intoView = method(Element.prototype, 'scrollIntoView');
// A large element is shown from its start.
const align = (length, room) => (length > room ? 'start' : 'nearest');
const { width, height } = bounds();
const alignment = { block: align(height, innerHeight), inline: align(width, innerWidth), behavior: 'instant' };
intoView(element, alignment);
// A frame of another origin does not scroll the documents around it.
for (let frame = frameOf(element); frame; frame = frameOf(frame)) intoView(frame, { block: 'nearest', inline: 'nearest', behavior: 'instant' });
await frame();
const shown = isConnected(element) ? bounds() : null;
if (shown) return { state: 'ready', ...shown };
restore();
return { state: 'hidden' };
