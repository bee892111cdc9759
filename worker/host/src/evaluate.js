// Body of an async function in the isolated world. It runs a script of the customer in the page's own world. The constants
// `script`, `args`, `limit` and `asCondition` are written before it.
//
// A page may have replaced any object of its own world, so that only syntax and the script itself run there. Everything else
// uses the objects of the isolated world. None of them is passed to the page. This code is strict, because a sloppy function
// that the page calls would be reachable by `caller`.

const shared = globalThis[Symbol.for('kitfleet.shared')];
const { apply, defineProperty } = Reflect;
const { then } = Promise.prototype;
const AsyncFunction = (async () => {}).constructor;

// Address of the script in stack traces, as the extension names it.
const SOURCE = 'evaluate';
const FRAME = /(?:^|@)evaluate:(\d+)(?::\d+)?$/m;
const MOST_NAME = 200;
const MOST_MESSAGE = 4_096;
const MOST_STACK = 100_000;

const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

// Reads something of the page, whose getters and proxies may throw.
const attempt = (read) => {
  try {
    return read();
  } catch {
    return undefined;
  }
};

const cut = (text, most) => (typeof text === 'string' ? text.slice(0, most).toWellFormed() : undefined);
const asLine = (line) => (Number.isInteger(line) && line > 0 && line < 2 ** 31 ? line : null);

// The line of the script that threw, or that called the function of the page that threw.
const lineOf = (error) => {
  const line = attempt(() => (error.sourceURL === SOURCE ? error.line : undefined));
  if (line !== undefined) return asLine(line);
  const stack = cut(attempt(() => error.stack), MOST_STACK);
  const frame = stack === undefined ? null : FRAME.exec(stack);
  return frame && asLine(Number(frame[1]));
};

const exception = (error) => {
  const member = (name, most) => (isObject(error) ? attempt(() => cut(error[name], most)) : undefined);
  const message = member('message', MOST_MESSAGE) ?? attempt(() => cut(String(error), MOST_MESSAGE));
  return JSON.stringify({
    exception: {
      name: member('name', MOST_NAME) || 'Error',
      message: message ?? 'the thrown value cannot be read',
      line: isObject(error) ? lineOf(error) : null,
    },
  });
};

// The message without the text of the script that it quotes. The constructor adds two lines before the script. Its general error
// has no line.
const syntaxError = (error) => {
  const [message] = error.message.split(/['"`]/);
  const line = error.message === 'Parser error' ? null : asLine(error.line - 2);
  return JSON.stringify({ syntax_error: { message: message.trim().slice(0, MOST_NAME), line } });
};

const typeOfNode = Object.getOwnPropertyDescriptor(Node.prototype, 'nodeType').get;
const isNode = (value) => isObject(value) && attempt(() => apply(typeOfNode, value, [])) !== undefined;

// Size of a text in UTF-8. A lone surrogate is not possible in JSON.
const bytesOf = (text) => {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7F) bytes += code > 0x7FF && (code < 0xD800 || code > 0xDFFF) ? 2 : 1;
  }
  return bytes;
};

// The constructor rejects a script that would close the function around it.
try {
  new AsyncFunction('args', script);
} catch (error) {
  return syntaxError(error);
}
const [run, list] = shared.runInPage(`(async function (args) {${script}\n})`, args);
if (typeof run !== 'function') return JSON.stringify({ syntax_error: { message: 'Parser error', line: null } });
const promise = run(list);
// Otherwise `then` would use the constructor that the page sees at the promise.
defineProperty(promise, 'constructor', { value: undefined });
// WebKit ends the command early when nothing refers to a promise that it waits for, so that running scripts are kept in a set.
const running = (shared.running ??= new Set());
const ended = await new Promise((resolve) => {
  const end = (value, thrown) => {
    running.delete(end);
    resolve({ value, thrown });
  };
  running.add(end);
  apply(then, promise, [(value) => end(value, false), (value) => end(value, true)]);
});
if (ended.thrown) return exception(ended.value);
if (asCondition) return JSON.stringify({ value: Boolean(ended.value) });
let json;
try {
  // An element may have properties that a library of the page has added.
  json = isNode(ended.value) ? '{}' : (JSON.stringify(ended.value) ?? 'null');
} catch (error) {
  return exception(error);
}
const bytes = json.length > limit / 3 ? bytesOf(json) : json.length;
return bytes > limit ? JSON.stringify({ too_large: bytes }) : `{"value":${json}}`;
