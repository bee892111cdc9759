// Rejects `input.script` if it is not the body of an async function. It is compiled and not run.
try {
  new (async () => {}).constructor('args', input.script);
} catch (error) {
  if (error instanceof SyntaxError) throw new Refusal(input.field, `must be the body of a function: ${clean(cut(collapse(error.message), 200))}`);
}
return true;
