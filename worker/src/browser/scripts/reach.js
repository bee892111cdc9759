// Returns a point where `input.target` can be tapped, and marks what the tap must hit.
//
// A point counts if a tap there hits the element, in its document and in each document around it. If there is none, the
// element is scrolled into view with several alignments, because a bar can cover one side of the viewport or of a
// scrolled list.
let isStill = isAtRest();
const element = find(input.target);
if (!element) return { state: 'absent' };
if (!isPresented(element)) return { state: 'hidden' };

const tag = tagOf(element);
isPassword(element);
const found = {
  takes: tag === 'select' ? 'choice' : isPicked(element) ? 'value' : takesText(element) ? 'text' : 'nothing',
  multiline: tag === 'textarea' || isEditor(element),
  locked: isDisabled(element) || Boolean(element.readOnly),
  disabled: isDisabled(element),
  has_focus: hasFocus(element),
  entered: element[Symbol.for('kitfleet.entered')] === true,
};

// In the order in which they are tried. The centre is first.
const PARTS = [
  [0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75],
  [0.5, 0.05], [0.5, 0.95], [0.05, 0.5], [0.95, 0.5],
];
const MOST_TRIED = 8;
const view = (root) => ({ width: documentElement(root).clientWidth, height: root === document ? innerHeight : documentElement(root).clientHeight });
const points = () => {
  const [zoom, convert] = [zoomOf(element), inViewport(element)];
  if (input.at) {
    const { left, top, width, height } = boxOf(element);
    if (input.at.x > width * zoom || input.at.y > height * zoom) {
      throw new Refusal('action.at', `must be inside the element, which has ${Math.floor(width * zoom)} by ${Math.floor(height * zoom)} CSS pixels`);
    }
    const [x, y] = convert([left, top]);
    return [[x + input.at.x, y + input.at.y]];
  }
  const { width, height } = view(documentOf(element));
  const boxes = tappableBoxes(element).slice(0, MOST_TRIED).map(({ left, top, right, bottom }) => [...convert([left, top]), ...convert([right, bottom])]);
  const shown = boxes.map(([left, top, right, bottom]) => [Math.max(left, 0), Math.max(top, 0), Math.min(right, width), Math.min(bottom, height)]);
  const centres = boxes.map(([left, top, right, bottom]) => [(left + right) / 2, (top + bottom) / 2]);
  const parts = shown
    .filter(([left, top, right, bottom]) => left < right && top < bottom)
    .flatMap(([left, top, right, bottom]) => PARTS.map(([x, y]) => [left + (right - left) * x, top + (bottom - top) * y]));
  return [...centres, ...parts];
};

// Through shadow roots.
const hitAt = (root, [x, y]) => {
  let hit = hitIn(root, x, y);
  for (let inner = hit && shadowOf(hit); inner; inner = shadowOf(hit)) {
    const within = hitIn(inner, x, y);
    if (!within || within === hit) break;
    hit = within;
  }
  return hit;
};

const ACTIVE = 'a[href], button, input, select, textarea, summary, [onclick], [role=button], [role=link], [role=checkbox], [role=switch], [role=menuitem]';

// If `only` is set, a control inside of the element does not count as the element.
const reached = (hit, wanted, only) => {
  for (let node = hit; node && nodeType(node) !== 9; node = parentNodeOf(node) ?? node.host) {
    if (node === wanted) return node;
    if (nodeType(node) !== 1) continue;
    if (tagOf(node) === 'label' && node.control === wanted) return node;
    if (only && wanted.control !== node && matches(node, ACTIVE)) return null;
  }
  // A tap passes through an element without pointer events to the control around it.
  if (getComputedStyle(wanted).pointerEvents === 'none') {
    for (let node = wanted; node && nodeType(node) !== 9; node = parentNodeOf(node) ?? node.host) {
      if (node === hit) return hit;
    }
  }
  return null;
};

// Returns the point in the page's viewport, and the node that the tap must reach.
const judge = (point, only) => {
  const node = reached(hitAt(documentOf(element), point), element, only);
  if (!node) return null;
  let at = point;
  for (let frame = frameOf(element); frame; frame = frameOf(frame)) {
    at = toOuter(frame, at);
    if (hitAt(documentOf(frame), at) !== frame) return null;
  }
  return { node, at };
};
const seek = () => {
  const all = points();
  for (const only of [true, false]) {
    for (const point of all) {
      const judged = judge(point, only);
      if (judged) return judged;
    }
  }
  return null;
};

const intoView = method(Element.prototype, 'scrollIntoView');
const ALIGNMENTS = [['center', 'center'], ['end', 'center'], ['start', 'center'], ['center', 'end'], ['center', 'start']];
// Its label, its content or its image can be scrolled to.
const anchorOf = () => {
  const label = isToggle(element) ? inputLabels(element)?.[0] : null;
  const image = tagOf(element) === 'area' ? pictureOf(element) : null;
  const around = [element, label, image, ...(rectsOf(element).length > 0 ? [] : queryIn(element, '*'))];
  return around.find((node) => node && boxesOf(node).length > 0) ?? element;
};
const bringIntoView = (block, inline) => {
  intoView(anchorOf(), { block, inline, behavior: 'instant' });
  // A frame of another origin does not scroll the documents around it.
  let at = points()[0];
  for (let frame = frameOf(element); at && frame; frame = frameOf(frame)) {
    at = toOuter(frame, at);
    const { width, height } = view(documentOf(frame));
    const by = (place, room) => (place >= 0 && place < room ? 0 : place - room / 2);
    const [left, top] = [by(at[0], width), by(at[1], height)];
    if (left === 0 && top === 0) continue;
    intoView(frame, { block: 'nearest', inline: 'nearest', behavior: 'instant' });
    at = toOuter(frame, points()[0]);
    scrollerOf(documentOf(frame)).scrollBy({ left: by(at[0], width), top: by(at[1], height), behavior: 'instant' });
  }
};

let judged = seek();
if (!judged && input.scrolls) {
  isStill = null;
  for (const [block, inline] of ALIGNMENTS) {
    bringIntoView(block, inline);
    await frame();
    if (!isPresented(element)) return { state: 'hidden' };
    judged = seek();
    if (judged) break;
  }
}
if (!judged) {
  const { width, height } = view(documentOf(element));
  const isOutside = points().every(([x, y]) => x < 0 || y < 0 || x >= width || y >= height);
  const [x, y] = points()[0] ?? [0, 0];
  return { state: isOutside ? 'outside' : 'covered', x, y, width: 0, height: 0, path: [], ...found };
}
// From the top left corner of the element, in the viewport of the page.
const path = (input.path ?? []).map(({ x, y }) => {
  const { left, top } = boxOf(element);
  const corner = inViewport(element)([left, top]);
  let at = [corner[0] + x, corner[1] + y];
  for (let frame = frameOf(element); frame; frame = frameOf(frame)) at = toOuter(frame, at);
  return at;
});
// Timers of the page may have moved it.
const PLACE = Symbol.for('kitfleet.place');
const isAway = ([x, y]) => Math.hypot(judged.at[0] - x, judged.at[1] - y) > 0.5;
if (isStill && documentOf(element) !== document) isStill = null;
if (isStill && element[PLACE] && isAway(element[PLACE])) isStill = false;
// A point that the caller has chosen may be on an element that moves all the time.
if (!input.at && isStill !== true) {
  // A slow movement is not seen from one moment to the next, and none is seen before the page is drawn again, which takes long on a
  // machine with much to do.
  const MOST_WAITED = 250;
  const from = performance.now();
  let [isDrawn, waited] = [false, 0];
  do {
    const last = globalThis[REST];
    await frame();
    isDrawn ||= last.isDrawn;
    waited = performance.now() - from;
  } while ((!isDrawn || (isStill === false && waited < 17)) && waited < MOST_WAITED);
  if (!isPresented(element)) return { state: 'hidden' };
  const before = judged.at;
  judged = seek();
  if (!judged || isAway(before)) return { state: 'moving' };
}
element[PLACE] = judged.at;
const AIM = Symbol.for('kitfleet.aim');
const AIMED = Symbol.for('kitfleet.aimed');
// Nodes that an earlier attempt has marked are no aim any more.
for (const earlier of globalThis[AIMED] ?? []) delete earlier.deref()?.[AIM];
if (input.aims) {
  // A frame does not receive the touch itself, but a document in it does.
  const MOST_FRAMES = 100;
  const marked = [judged.node];
  for (let next = 0; next < marked.length && marked.length < MOST_FRAMES; next++) {
    const root = frameDocument(marked[next]);
    if (root && documentElement(root)) marked.push(documentElement(root), ...queryIn(root, 'iframe, frame'));
  }
  for (const node of marked) node[AIM] = { field: found.takes === 'text' && !input.at ? element : null };
  globalThis[AIMED] = marked.map((node) => new WeakRef(node));
}
const { width, height } = boxOf(element);
return { state: 'ready', x: judged.at[0], y: judged.at[1], width: width * zoomOf(element), height: height * zoomOf(element), path, ...found };
