// Boxes of the fields that a recorded picture must not show, in CSS pixels of the viewport.
//
// The picture may be a frame old. With such fields it is painted between two calls, and they must have stood still for two frames
// before it, and after it. A document that has never had such a field needs only the second call (`only`). Frames of all origins
// are in this process, so that their fields are measured here; a frame whose document is not known, or that the time does not
// suffice for, is covered as a whole.
const MEASURED = Symbol.for('kitfleet.measured');
const WATCHED = Symbol.for('kitfleet.watched');
// Around the viewport, in which a field counts although it is not visible.
const NEAR = 200;
const shared = globalThis[Symbol.for('kitfleet.shared')];
shared.sensitive = false;

// Remembers password fields of shadow roots, which the listener of the document does not see.
const changed = (records) => {
  for (const { oldValue, target } of records) {
    if (oldValue?.toLowerCase() === 'password') target[PASSWORD] = true;
  }
};
const watch = (root) => {
  if (root[WATCHED]) return;
  root[WATCHED] = true;
  new MutationObserver(changed).observe(root, { subtree: true, attributes: true, attributeFilter: ['type'], attributeOldValue: true });
};

class OutOfTime extends Error {}
let deadline = 0;
const inTime = () => performance.now() < deadline;

const hull = (points) => {
  const [x, y] = [0, 1].map((axis) => points.map((point) => point[axis]));
  return [Math.min(...x), Math.min(...y), Math.max(...x), Math.max(...y)];
};
const boxAround = (element) => {
  const zoom = zoomOf(element);
  const own = boxOf(element);
  const parts = hasArea(own) ? [own] : contentBoxes(element, MOST_BOXES);
  if (parts.length === 0) return null;
  const points = parts.flatMap((part) => [[part.left, part.top], [part.right, part.bottom]]);
  let [left, top, right, bottom] = hull(points.map(inViewport(element)));
  // A text that is longer than its editor is shown beside it.
  if (isEditor(element) && getComputedStyle(element).overflowX === 'visible') {
    right += Math.max(element.scrollWidth - element.clientWidth, 0) * zoom;
    bottom += Math.max(element.scrollHeight - element.clientHeight, 0) * zoom;
  }
  let corners = [[left, top], [right, top], [left, bottom], [right, bottom]];
  for (let frame = frameOf(element); frame; frame = frameOf(frame)) corners = corners.map((corner) => toOuter(frame, corner));
  const { offsetLeft, offsetTop, scale } = visualViewport;
  return hull(corners.map(([x, y]) => [(x - offsetLeft) * scale, (y - offsetTop) * scale]));
};
const isNear = ([left, top, right, bottom]) => left < innerWidth + NEAR && top < innerHeight + NEAR && right > -NEAR && bottom > -NEAR;

// Elements with an open shadow root. To look at all elements takes long, so that those of a document are looked at only when their
// number has changed. Elements with a dash in their name can get a root later.
const HOSTS = Symbol.for('kitfleet.hosts');
const { evaluate } = Document.prototype;
const hostsIn = (root) => {
  const all = queryIn(root, '*');
  if (root[HOSTS]?.count !== all.length) {
    const hosts = [];
    all.forEach((element, i) => {
      if (i % 256 === 0 && !inTime()) throw new OutOfTime();
      if (shadowOf(element)) hosts.push(element);
    });
    root[HOSTS] = { count: all.length, hosts };
    return hosts;
  }
  if (nodeType(root) !== 9) return root[HOSTS].hosts.filter(isConnected);
  const custom = evaluate.call(root, "//*[contains(local-name(), '-')]", root, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
  const hosts = new Set(root[HOSTS].hosts);
  for (let i = 0; i < custom.snapshotLength; i++) {
    const element = custom.snapshotItem(i);
    if (shadowOf(element)) hosts.add(element);
  }
  return [...hosts].filter(isConnected);
};

const FIELDS = 'input, select, textarea, iframe, frame, object, embed, [contenteditable]';
const EMBEDDED = new Set(['embed', 'object']);
const measure = () => {
  deadline = performance.now() + input.within_ms;
  const boxes = new Map();
  const cover = (element) => {
    if (!isConnected(element) || !checkVisibility(element, { visibilityProperty: true })) return;
    const box = boxAround(element);
    // A place that is not known is everywhere.
    if (!box || !box.every(Number.isFinite)) return box && boxes.set(element, [0, 0, innerWidth, innerHeight]);
    if (isNear(box)) boxes.set(element, box);
  };
  const visit = (root) => {
    watch(root);
    for (const element of queryIn(root, FIELDS)) {
      if (!inTime()) throw new OutOfTime();
      const tag = tagOf(element);
      // The listeners of frames keep their own marks.
      if (documentOf(element) !== document) shared.hadSecrets = true;
      if (isFrame(element)) enter(element);
      else if (EMBEDDED.has(tag)) {
        if (element.contentDocument || element.contentWindow || tag === 'embed') cover(element);
      } else if (isSecret(element)) cover(element);
    }
    for (const host of hostsIn(root)) visit(shadowOf(host));
  };
  const enter = (frame) => {
    if (!checkVisibility(frame, { visibilityProperty: true })) return;
    const inner = frameDocument(frame);
    if (!inner) return cover(frame);
    try {
      visit(inner);
    } catch (error) {
      if (!(error instanceof OutOfTime)) throw error;
      deadline = performance.now() + input.within_ms / 4;
      cover(frame);
    }
  };
  visit(document);
  for (const mark of shared.secrets ?? []) {
    const element = mark.deref();
    if (!element || !isConnected(element)) shared.secrets.delete(mark);
    else if (documentOf(element) === document || frameOf(element)) cover(element);
  }
  if (boxes.size > input.most) throw new OutOfTime();
  if (boxes.size > 0) shared.hadSecrets = true;
  return boxes;
};
const isStill = (one, other) =>
  one.size === other.size && [...one].every(([element, box]) => other.get(element)?.every((side, i) => Math.abs(side - box[i]) < 0.5));

// Pictures of the document before it show nothing any more.
const PAINTED_BEFORE = 100;
const isPainted = () => {
  const [paint] = performance.getEntriesByName('first-contentful-paint');
  return Boolean(paint) && performance.now() - paint.startTime > PAINTED_BEFORE;
};

try {
  if (input.phase === 'only') {
    const now = measure();
    return shared.hadSecrets || shared.secrets?.size > 0 || !isPainted() ? 'moving' : { known: [...now.values()] };
  }
  if (input.phase === 'after') {
    const before = globalThis[MEASURED];
    globalThis[MEASURED] = null;
    const now = measure();
    return before && isStill(before, now) ? { known: [...now.values()] } : 'moving';
  }
  const first = measure();
  await frame();
  await frame();
  const second = measure();
  globalThis[MEASURED] = second;
  return isStill(first, second) ? { known: [...second.values()] } : 'moving';
} catch (error) {
  if (!(error instanceof OutOfTime)) throw error;
  return 'unclear';
}
