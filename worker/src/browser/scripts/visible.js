// True when an element of `input.target` is visible.
try {
  return candidatesFor(input.target).some(isVisible);
} catch (error) {
  // A caller that waits until the element is hidden is done.
  if (error instanceof Gone && input.until_hidden) return false;
  throw error;
}
