// Returns the position where `input.target` can be tapped, once it can be tapped.
const element = find(input.target);
if (!element) return { state: 'absent' };
if (!isVisible(element)) return { state: 'hidden' };

const found = {
  takes: tagOf(element) === 'select' ? 'choice' : takesText(element) ? 'text' : 'nothing',
  locked: Boolean(element.disabled || element.readOnly),
  has_focus: hasFocus(element),
};
const centre = () => {
  const box = boxesOf(element)[0];
  const [left, top] = originOf(element);
  return [left + box.left + box.width / 2, top + box.top + box.height / 2];
};
const isInside = ([x, y]) => x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;

const reveal = () => {
  const middle = { block: 'center', inline: 'center', behavior: 'instant' };
  element.scrollIntoView(middle);
  // WebKit does not scroll the pages around a frame of another origin.
  for (let frame = frameOf(element); frame && !isInside(centre()); frame = frameOf(frame)) frame.scrollIntoView(middle);
  if (isInside(centre())) return;
  // The frame is larger than the viewport.
  const [left, top] = centre();
  scrollBy({ left: left - innerWidth / 2, top: top - innerHeight / 2, behavior: 'instant' });
};
if (!isInside(centre())) reveal();
const before = centre();
await frame();
if (!isVisible(element)) return { state: 'hidden' };
const [x, y] = centre();
if (Math.hypot(x - before[0], y - before[1]) > 0.5) return { state: 'moving' };
if (!isInside([x, y])) return { state: 'outside' };

const hitAt = () => {
  let [hit, left, top] = [hitIn(document, x, y), x, y];
  while (hit) {
    const inside = frameDocument(hit);
    const inner = inside ?? shadowOf(hit);
    if (inside) {
      const [dx, dy] = insideOf(hit);
      [left, top] = [left - dx, top - dy];
    }
    const within = inner && hitIn(inner, left, top);
    if (!within || within === hit) break;
    hit = within;
  }
  return hit;
};
const path = [];
for (let node = hitAt(); node; node = outside(node)) path.push(node);
const label = path.find((node) => nodeType(node) === 1 && tagOf(node) === 'label');
const reached = path.includes(element) || label?.control === element;
return { state: reached ? 'ready' : 'covered', x, y, ...found };
