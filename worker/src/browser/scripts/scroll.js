// Scrolls `input.target`, or the page. If the page has nothing to scroll, scrolls the element at its center.
const { x, y } = input;
const scrolls = (element) => {
  const style = getComputedStyle(element);
  const can = (overflow, size, room) => /auto|scroll/.test(overflow) && size > room;
  return (
    (x !== 0 && can(style.overflowX, element.scrollWidth, element.clientWidth)) ||
    (y !== 0 && can(style.overflowY, element.scrollHeight, element.clientHeight))
  );
};
const page = getter(Document.prototype, 'scrollingElement')(document) ?? documentElement(document);
let element = page;
if (input.target) {
  element = find(input.target);
  if (!element) return false;
} else if (page.scrollWidth <= innerWidth && page.scrollHeight <= innerHeight) {
  let under = hitIn(document, innerWidth / 2, innerHeight / 2);
  while (under && !scrolls(under)) under = under.parentElement;
  element = under ?? page;
}
element.scrollBy({ left: x, top: y, behavior: 'instant' });
await frame();
return true;
