// Where a finger has to land to touch `input.target`, once it can be touched.
const element = find(input.target);
if (!element) return { state: 'absent' };
if (!isVisible(element)) return { state: 'hidden' };

const found = {
  takes: element instanceof HTMLSelectElement ? 'choice' : takesText(element) ? 'text' : 'nothing',
  locked: Boolean(element.disabled || element.readOnly),
  has_focus: hasFocus(element),
};
const centre = () => {
  const box = boxesOf(element)[0];
  return [box.left + box.width / 2, box.top + box.height / 2];
};
const isInside = ([x, y]) => x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;

if (!isInside(centre())) element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
const before = centre();
await frame();
if (!isVisible(element)) return { state: 'hidden' };
const [x, y] = centre();
if (Math.hypot(x - before[0], y - before[1]) > 0.5) return { state: 'moving' };
if (!isInside([x, y])) return { state: 'outside' };

let hit = document.elementFromPoint(x, y);
for (;;) {
  const inner = hit?.shadowRoot?.elementFromPoint(x, y);
  if (!inner || inner === hit) break;
  hit = inner;
}
const path = [];
for (let node = hit; node; node = node.parentNode ?? node.host) path.push(node);
const label = path.find((node) => node instanceof HTMLLabelElement);
const reached = path.includes(element) || label?.control === element;
return { state: reached ? 'ready' : 'covered', x, y, ...found };
