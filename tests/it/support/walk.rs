//! A sign-in through a popup, an upload, a confirmation and a download.

pub const EXPENSES: &str =
    "<!doctype html><title>Expenses</title><h1>Expenses</h1><p id=account>Nobody is signed in.</p>
<button id=start>Sign in with Example ID</button>
<form id=claim hidden><label>Day <input type=date id=day></label><label>Receipt <input type=file id=receipt></label>
<button type=button id=send>Hand in</button></form><p id=state></p>
<a id=statement hidden href='/attachment?bytes=5&type=application/pdf'>Statement</a><script>
start.onclick = () => window.open('/walk/sign-in', 'example-id');
addEventListener('message', event => {
  if (event.origin !== location.origin) return;
  account.textContent = `Signed in as ${event.data}.`;
  claim.hidden = false;
});
send.onclick = () => {
  if (!confirm(`Hand in the receipt of ${day.value}?`)) return;
  state.textContent = `${receipt.files[0].name} of ${day.value} was handed in.`;
  statement.hidden = false;
};
</script>";

/// Popup that signs in and closes itself.
pub const SIGN_IN: &str = "<!doctype html><title>Example ID</title><h1>Example ID</h1>
<label>Name <input id=user></label><button id=enter>Continue</button><script>
enter.onclick = () => {
  window.opener.postMessage(user.value, location.origin);
  window.close();
};
</script>";
