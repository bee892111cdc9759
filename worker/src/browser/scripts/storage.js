// Returns the local storage, up to `input.limit` bytes, and `input.most` bytes as JSON. A document without an origin has
// none.
const entries = [];
let bytes = 0;
let json = 0;
let truncated = false;
try {
  for (let i = 0; i < localStorage.length && !truncated; i++) {
    const key = localStorage.key(i);
    const value = localStorage.getItem(key);
    bytes += size(key) + size(value);
    if (bytes > input.limit) {
      truncated = true;
      break;
    }
    const entry = [clean(key), clean(value)];
    json += jsonSize(entry);
    truncated = json > input.most;
    if (!truncated) entries.push(entry);
  }
} catch (error) {
  if (error.name !== 'SecurityError') throw error;
}
return { entries, truncated };
