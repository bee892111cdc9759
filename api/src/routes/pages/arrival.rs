//! The callback page of an identity provider. Its script requests the same URL again as JSON, so no page ever contains a token.

use axum::response::Response;

use crate::http::state::App;
use crate::routes::pages::{card, sign_in};

pub fn page(app: &App) -> Response {
    let sign_in = sign_in(app);
    let main = format!(
        "<main>\n<section id=arriving>\n<h1 tabindex=-1>Signing you in</h1>\n<p>One moment.</p>\n</section>\n\
         <section id=refused hidden>\n<h1 tabindex=-1>Sign-in failed</h1>\n\
         <p>The identity provider did not sign you in.</p>\n<button id=again type=button>Try another method</button>\n</section>\n\
         <section id=confirm hidden>\n<h1 tabindex=-1>Check your mail</h1>\n\
         <p>Your e-mail address already has an account. We have mailed you a link that confirms this new sign-in \
         method.</p>\n</section>\n{sign_in}\
         <section id=arrived hidden>\n<h1 tabindex=-1>Welcome</h1>\n<p>You are signed in.</p>\n\
         <a id=next class=button href=\"/app/\">Open the dashboard</a>\n</section>\n\
         <p id=message role=status aria-live=polite></p>\n</main>"
    );
    card("Signing in", "arrival.js", &main)
}
