// The local storage, up to `input.limit` bytes. Documents without an origin have none.
const entries = [];
let bytes = 0;
let truncated = false;
try {
  const size = (text) => new TextEncoder().encode(text).length;
  for (let i = 0; i < localStorage.length && !truncated; i++) {
    const key = localStorage.key(i);
    const value = localStorage.getItem(key);
    bytes += size(key) + size(value);
    truncated = bytes > input.limit;
    if (!truncated) entries.push([clean(key), clean(value)]);
  }
} catch (error) {
  if (error.name !== 'SecurityError') throw error;
}
return { entries, truncated };
