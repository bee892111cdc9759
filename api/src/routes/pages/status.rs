//! `/status`: service status for people, and the pages that mails to subscribers link to (contract: status 9, 16 to 18). The
//! button of a page submits to the page's own URL, so that a scanner that opens a link confirms or ends no subscription, and a
//! mail program can unsubscribe without the page (RFC 8058).

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{IntoResponse as _, Response};
use html_escape::{encode_double_quoted_attribute, encode_text};
use kitfleet_domain::status::components::{Component, Measured, State as Condition};
use kitfleet_domain::status::history::Day;
use kitfleet_domain::status::incidents::Incident;
use kitfleet_domain::status::subscribers;
use kitfleet_jobs::status::confirm as confirm_subscription;
use utoipa_axum::routes;

use super::{document, headers};
use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::lists::Query;
use crate::http::openapi::{Database, InvalidQuery, RateLimited};
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::status_cache::CachedStatus;

pub fn routes() -> Routes {
    Routes::new()
        .public(routes!(status))
        .public(routes!(confirm_page))
        .public(routes!(confirm))
        .public(routes!(unsubscribe_page))
        .public(routes!(unsubscribe))
}

/// Policy of a page whose form submits to the page's own URL. The page runs no scripts.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Query parameter of a link's URL.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documents the parameter that the handlers read")]
struct LinkToken {
    /// Token of the mailed link; the page is the same without it
    token: Option<String>,
}

/// View the service status
///
/// Shows the data of `GET /v1/status` for people.
#[utoipa::path(
    get, path = "/status", tag = "Pages", operation_id = "statusPage",
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn status(State(app): State<App>) -> Result<Response> {
    let seen = app.status_cache.get(&app.db).await;
    Ok(with_policy((headers("public, max-age=3"), document("Status", &content(&seen))?).into_response()))
}

/// Confirm a subscription
///
/// Shows the page that a subscription confirmation mail links to.
#[utoipa::path(
    get, path = "/status/confirm", tag = "Pages", operation_id = "confirmSubscriptionPage", params(LinkToken),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn confirm_page() -> Result<Response> {
    question(
        "Subscribe to incidents",
        "Press the button to receive a mail at this address when there is an incident.",
        "Subscribe",
    )
}

/// Confirm a subscription by its link
///
/// Receives the page's form. The link works once.
#[utoipa::path(
    post, path = "/status/confirm", tag = "Pages", operation_id = "confirmSubscription", params(LinkToken),
    responses(
        (status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8"),
        InvalidQuery, RateLimited, Database,
    ),
)]
async fn confirm(State(app): State<App>, client: ClientInfo, query: Query) -> Result<Response> {
    app.rate_limits.check(Bucket::Verify, &client).await?;
    let token = query.text("token")?.unwrap_or_default();
    if !confirm_subscription(&mut *app.db.acquire().await?, token).await? {
        return Err(Problem::bad_link());
    }
    message(
        "You are subscribed",
        "This address receives a mail when there is an incident. Each mail has an unsubscribe link.",
    )
}

/// Unsubscribe
///
/// Shows the page that a mail to a subscriber links to.
#[utoipa::path(
    get, path = "/status/unsubscribe", tag = "Pages", operation_id = "unsubscribePage", params(LinkToken),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn unsubscribe_page() -> Result<Response> {
    question("Unsubscribe", "Press the button to stop mails about incidents to this address.", "Unsubscribe")
}

/// Unsubscribe by link
///
/// Receives the page's form and the one-click requests of mail programs (RFC 8058).
#[utoipa::path(
    post, path = "/status/unsubscribe", tag = "Pages", operation_id = "unsubscribe", params(LinkToken),
    responses(
        (status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8"),
        InvalidQuery, RateLimited, Database,
    ),
)]
async fn unsubscribe(State(app): State<App>, client: ClientInfo, query: Query) -> Result<Response> {
    app.rate_limits.check(Bucket::Verify, &client).await?;
    let token = query.text("token")?.unwrap_or_default();
    let subscriber = app.unsubscriber().await?.read(token).ok_or_else(Problem::bad_link)?;
    subscribers::unsubscribe(&mut *app.db.acquire().await?, subscriber).await?;
    message(
        "You are unsubscribed",
        "This address receives no more mails about incidents, and was deleted from our records.",
    )
}

/// A page with a button that submits to the page's own URL.
fn question(title: &str, text: &str, button: &str) -> Result<Response> {
    let form = format!("<form method=post>\n<button class=primary>{button}</button>\n</form>");
    page(title, &format!("<p>{text}</p>\n{form}"))
}

fn message(title: &str, text: &str) -> Result<Response> {
    page(title, &format!("<p>{text}</p>\n<p><a href=\"/status\">Service status</a></p>"))
}

fn page(title: &str, content: &str) -> Result<Response> {
    let content = format!("<h1>{title}</h1>\n{content}");
    Ok(with_policy((headers("no-store"), document(title, &content)?).into_response()))
}

fn with_policy(mut response: Response) -> Response {
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

fn content(seen: &CachedStatus) -> String {
    let mut content = format!("<h1>{}</h1>\n", summary(seen.worst()));
    let rows: String = seen.components().into_iter().map(component_row).collect();
    let _ = write!(content, "<table class=components><tbody>\n{rows}</tbody></table>\n");
    match &seen.page {
        Some(look) => {
            let stale = if seen.answers { "" } else { ", the last time the database responded" };
            let _ = write!(content, "<p class=note>As of <time>{}</time>{stale}.</p>\n<h2>Incidents</h2>\n", look.at);
            if look.incidents.is_empty() {
                content.push_str("<p>No open incidents.</p>\n");
            }
            content.extend(look.incidents.iter().map(incident));
            content.push_str("<h2>The last 90 days</h2>\n");
            content.extend(Component::ALL.iter().map(|one| history(*one, &look.history)));
        }
        None => content.push_str("<p>The database does not respond, so incidents cannot be shown.</p>\n"),
    }
    content
}

fn summary(worst: Condition) -> &'static str {
    match worst {
        Condition::Operational => "All systems operational",
        Condition::DegradedPerformance => "Some components are slow or fail intermittently",
        Condition::PartialOutage => "Partial outage",
        Condition::MajorOutage => "Major outage",
    }
}

fn title_of(component: Component) -> &'static str {
    match component {
        Component::Api => "API",
        Component::Workers => "Browsers",
        Component::Webhooks => "Webhooks",
        Component::Mail => "Mail",
        Component::Database => "Database",
    }
}

fn text_of(state: Option<Condition>) -> &'static str {
    match state {
        Some(Condition::Operational) => "Operational",
        Some(Condition::DegradedPerformance) => "Degraded performance",
        Some(Condition::PartialOutage) => "Partial outage",
        Some(Condition::MajorOutage) => "Major outage",
        None => "Unknown",
    }
}

/// CSS class that colours the text of a state.
fn class_of(state: Option<Condition>) -> &'static str {
    state.map_or("unknown", Condition::name)
}

fn component_row(measured: Measured) -> String {
    let (class, text) = (class_of(measured.state), text_of(measured.state));
    format!("<tr><th scope=row>{}<td class={class}>{text}\n", title_of(measured.component))
}

fn incident(incident: &Incident) -> String {
    let mut shown = format!("<h3>{}</h3>\n<p>Impact: {}", encode_text(&incident.title), incident.impact.name());
    if !incident.components.is_empty() {
        let _ = write!(shown, ". Affected: {}", encode_text(&incident.components.join(", ")));
    }
    shown.push_str(".</p>\n<dl>\n");
    for update in &incident.updates {
        let message = encode_text(&update.message).replace('\n', "<br>");
        let _ = write!(
            shown,
            "<dt>{}, <time>{}</time></dt>\n<dd>{message}</dd>\n",
            update.status.name(),
            update.created_at
        );
    }
    shown.push_str("</dl>\n");
    shown
}

/// A bar for each day, oldest first, with a text for screen readers.
fn history(component: Component, days: &[Day]) -> String {
    let of = |day: &Day| day.components.iter().find(|one| one.component == component).copied();
    let known: Vec<_> = days.iter().filter_map(|day| Some((day.date, of(day)?))).collect();
    let samples: i64 = known.iter().map(|(_, day)| i64::from(day.samples)).sum();
    let up: f64 = known.iter().map(|(_, day)| day.uptime.unwrap_or_default() * f64::from(day.samples)).sum();
    let measured = known.iter().filter(|(_, day)| day.samples > 0).count();
    #[expect(clippy::cast_precision_loss, reason = "fewer than a million samples")]
    let text = match samples {
        0 => "not measured yet".to_owned(),
        _ => format!(
            "{:.2} % without an outage, measured on {measured} of {} days",
            up / samples as f64 * 100.0,
            known.len()
        ),
    };
    let mut shown =
        format!("<h3>{}</h3>\n<p class=note>{text}</p>\n<ol class=days aria-hidden=true>\n", title_of(component));
    for (date, day) in known.iter().rev() {
        let title = format!("{date}: {}", text_of(day.state));
        let _ =
            writeln!(shown, "<li class={} title=\"{}\">", class_of(day.state), encode_double_quoted_attribute(&title));
    }
    shown.push_str("</ol>\n");
    shown
}
