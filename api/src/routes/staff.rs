//! Operator actions on customer accounts (contract: staff 7 to 38).

mod accounts;
mod crypto_orders;
mod deliveries;
mod incidents;
mod jobs;
mod mac_nodes;
mod samples;
mod sessions;
mod usage;
mod workers;

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::staff::StaffActor;
use kitfleet_jobs::refused::Refused;
use kitfleet_types::validation::Invalid;
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::auth::staff::Staff;
use crate::http::error::{Problem, Result};
use crate::http::json::Json;
use crate::http::kinds;
use crate::http::lists::Query;
use crate::http::path::{IdPath, Resource};
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new()
        .merge(accounts::routes())
        .merge(crypto_orders::routes())
        .merge(deliveries::routes())
        .merge(incidents::routes())
        .merge(jobs::routes())
        .merge(mac_nodes::routes())
        .merge(samples::routes())
        .merge(sessions::routes())
        .merge(usage::routes())
        .merge(workers::routes())
        .never_stored()
}

/// Reason for an action of staff
#[derive(Deserialize, ToSchema)]
#[schema(as = Because, example = json!({"reason": "asked for by the customer, ticket 4711"}))]
struct ReasonBody {
    /// Reason, recorded in the logs
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// An action on the resource in the path, whose body contains only the reason.
struct StaffAction<T> {
    /// The resource.
    id: T,
    /// The member of staff and the reason.
    by: StaffActor,
}

impl<T: Resource + Copy + Send> FromRequest<App> for StaffAction<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let (mut parts, body) = request.into_parts();
        let staff = Staff::from_request_parts(&mut parts, app).await?;
        let Ok(path) = IdPath::<T>::from_request_parts(&mut parts, app).await;
        let Json(ReasonBody { reason }) = Json::from_request(Request::from_parts(parts, body), app).await?;
        Ok(Self { id: path.id()?, by: staff.because(&reason)? })
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown => Self::new(&kinds::NOT_FOUND, refused.to_string()),
            Refused::Conflict(why) => Self::new(&kinds::CONFLICT, why),
            Refused::Database(error) => error.into(),
        }
    }
}

/// Scope of the cursors of staff's lists, which belong to no account.
fn cursors<'a>(list: &'static str, filters: &'a [Option<&'a str>]) -> CursorScope<'a> {
    CursorScope { account: Uuid::nil().into(), list, filters }
}

/// Reads a filter of a list, which must be one of the known values.
fn filter<T>(query: &Query, name: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Invalid> {
    query.parsed(name, |text| parse(text).ok_or_else(|| Invalid::field(name, "is not a valid value")))
}
