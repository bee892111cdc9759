// Returns the signs of challenges.json that the page has: indexes of the system and of the sign, and the host. Expensive
// searches, of the whole page or in another process, run only for a system with a cheaper sign. Most pages have none.

// Limits, because a page can make each of these arbitrarily long.
const MOST = { scripts: 300, frames: 100, address: 2048, title: 200, cookies: 300, elements: 20 };

const first = (list, most) => Array.prototype.slice.call(list, 0, most);
const titleOf = getter(Document.prototype, 'title');
const cookieOf = getter(Document.prototype, 'cookie');
const byId = method(Document.prototype, 'getElementById');
const valueOf = { input: getter(HTMLInputElement.prototype, 'value'), textarea: getter(HTMLTextAreaElement.prototype, 'value') };

// The address is the only visible property of a frame of another site.
const addressesOf = (elements, sourceOf) =>
  elements.flatMap((element) => {
    try {
      const { hostname, pathname, search, hash } = new URL(sourceOf(element));
      return [{ element, host: hostname, rest: (pathname + search + hash).slice(0, MOST.address) }];
    } catch {
      return [];
    }
  });
const scripts = addressesOf(first(getter(Document.prototype, 'scripts')(document), MOST.scripts), getter(HTMLScriptElement.prototype, 'src'));
const frames = addressesOf(first(queryIn(document, 'iframe'), MOST.frames), getter(HTMLIFrameElement.prototype, 'src'));
const title = titleOf(document).slice(0, MOST.title).trim().toLowerCase();
let names;
const cookies = () => (names ??= cookieOf(document).split(';', MOST.cookies).map((cookie) => cookie.trim()));

// A challenge that is not visible does not ask the user anything.
const isInView = (element) => {
  if (!checkVisibility(element, { visibilityProperty: true, opacityProperty: true })) return false;
  const { left, top, right, bottom, width, height } = boxOf(element);
  return width >= 16 && height >= 16 && right > 0 && bottom > 0 && left < innerWidth && top < innerHeight;
};

const isOf = (host) => (known) => host === known || host.endsWith(`.${known}`);
const leadsTo = ({ hosts, except = [], contains = [], without }) => ({ host, rest }) =>
  (!hosts || hosts.some(isOf(host))) && !except.some(isOf(host)) &&
  contains.every((part) => rest.includes(part)) && !(without && rest.includes(without));

// An empty text for a sign without a host, or `undefined` when the page does not have the sign.
const cheap = (sign) => {
  if (sign.script) return scripts.find(leadsTo(sign.script))?.host;
  if (sign.frame) return frames.find((frame) => leadsTo(sign.frame)(frame) && isInView(frame.element))?.host;
  if (sign.title && title === sign.title.toLowerCase()) return '';
  if (sign.id) {
    const element = byId(document, sign.id);
    return element && isInView(element) ? '' : undefined;
  }
};
const dear = (sign) => {
  if (sign.cookie && cookies().some((cookie) => cookie.startsWith(sign.cookie))) return '';
  if (sign.element) {
    const found = first(queryIn(document, sign.element), MOST.elements);
    if (sign.in_view ? found.some(isInView) : found.length > 0) return '';
  }
};
const isAnswered = (selector) =>
  first(queryIn(document, selector), MOST.elements).some((field) => valueOf[tagOf(field)]?.(field));

const met = [];
input.forEach(({ signs, answered }, system) => {
  const ask = (question) => signs.flatMap((sign, place) => {
    const host = question(sign);
    return host === undefined ? [] : [[system, place, host.slice(0, 253)]];
  });
  const shown = ask(cheap);
  if (shown.length === 0 || (answered && isAnswered(answered))) return;
  met.push(...shown, ...ask(dear));
});
// Each document has its own isolated world, where no element can have this name.
const DOCUMENT = Symbol.for('kitfleet.document');
globalThis[DOCUMENT] ??= Math.floor(Math.random() * 2 ** 52);
return { document: globalThis[DOCUMENT], met };
