//! Where a browser comes back from an identity provider. The page asks the same address again, as a program does, and takes
//! what it is told to a session: so no token ever stands in a page.

use axum::response::Response;

use crate::http::state::App;
use crate::routes::pages::{card, sign_in};

/// The page.
pub fn page(app: &App) -> Response {
    let sign_in = sign_in(app);
    let main = format!(
        "<main>\n<section id=arriving>\n<h1 tabindex=-1>Signing you in</h1>\n<p>One moment.</p>\n</section>\n\
         <section id=refused hidden>\n<h1 tabindex=-1>You are not signed in</h1>\n\
         <p>Signing in there did not work out.</p>\n<button id=again type=button>Try another way</button>\n</section>\n\
         <section id=confirm hidden>\n<h1 tabindex=-1>Look into your mail</h1>\n\
         <p>Your e-mail address has an account here already. We have mailed you a link that opens it for this new way to \
         sign in.</p>\n</section>\n{sign_in}\
         <section id=arrived hidden>\n<h1 tabindex=-1>Welcome</h1>\n<p>You are signed in.</p>\n\
         <a id=next class=button href=\"/activate\">Connect a device</a>\n</section>\n\
         <p id=message role=status aria-live=polite></p>\n</main>"
    );
    card("Signing in", "arrival.js", &main)
}
