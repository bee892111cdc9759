// Whether something that `input.target` means can be seen.
try {
  return candidatesFor(input.target).some(isVisible);
} catch (error) {
  // Who waits until it cannot be seen has waited for that.
  if (error instanceof Gone && input.until_hidden) return false;
  throw error;
}
