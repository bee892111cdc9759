// A toggle that a target matches is visible if its label is.
try {
  return candidatesFor(input.target).some(input.target.target === undefined ? isVisible : isPresented);
} catch (error) {
  // A caller that waits until the element is hidden is done.
  if (error instanceof Gone && input.until_hidden) return false;
  throw error;
}
