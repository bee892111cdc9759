// Whether something that `input.target` means can be seen.
return candidatesFor(input.target).some(isVisible);
