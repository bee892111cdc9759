// Scrolls through the page, so that lazy content loads, and returns to the start. `input` is `{ height, time, pictures }`: the
// largest scroll position in CSS pixels, the time limit of the scrolling, and the time limit of the wait for pictures, both in
// milliseconds.
const FRAME_WITHIN = 100;
const STEP_PAUSE = 50;
const END_PAUSE = 300;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const frame = () =>
  new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, FRAME_WITHIN);
  });
const root = () => document.scrollingElement ?? document.documentElement;

const [left, top, start] = [scrollX, scrollY, performance.now()];
for (let position = 0; position < input.height && performance.now() - start < input.time; position += innerHeight) {
  scrollTo({ left, top: position, behavior: 'instant' });
  await frame();
  await pause(STEP_PAUSE);
  const isAtEnd = () => position + innerHeight >= root().scrollHeight;
  if (isAtEnd()) {
    // The page may append content now.
    await pause(END_PAUSE);
    if (isAtEnd()) break;
  }
}
scrollTo({ left, top, behavior: 'instant' });
await frame();

const isPending = (image) =>
  !image.complete && image.getClientRects().length > 0 && image.getBoundingClientRect().top + scrollY < input.height;
const until = performance.now() + input.pictures;
while (performance.now() < until && [...document.images].some(isPending)) await pause(STEP_PAUSE);
return null;
