// The fields that a recorded picture must not show, and the text of the page, in one call.
const hidden = input.phase ? await covers(input) : null;
const text = input.snapshot && hidden !== 'moving' ? (await snapshot(input.snapshot)).snapshot : null;
return { hidden, text };
