//! The OpenAPI document and its browsable pages, which also work offline.

use std::sync::{Arc, LazyLock};

use axum::Extension;
use axum::body::Bytes;
use axum::extract::RawPathParams;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use kitfleet_types::validation::Invalid;
use serde_json::Value;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa_axum::routes;
use utoipa_swagger_ui::Config;

use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::lists::Query;
use crate::http::openapi::{InvalidQuery, one_of, query};
use crate::http::routing::Routes;

/// The page loads only resources of this service and connects to no other server.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; \
                      form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    // The validator badge would send the document to a third-party server.
    let config = Config::new(["/openapi.json"]).validator_url("none").display_request_duration(true);
    Arc::new(config.persist_authorization(false).default_models_expand_depth(0).deep_linking(true))
});

/// The OpenAPI document as it is served. The first request generates it.
#[derive(Clone)]
pub struct Contract(Arc<LazyLock<Printed, Box<dyn FnOnce() -> Printed + Send>>>);

type Printed = serde_json::Result<Documents>;

/// The whole document, and the part for customers.
struct Documents {
    whole: Bytes,
    for_customers: Bytes,
}

impl Documents {
    fn print((whole, for_customers): (Value, Value)) -> Printed {
        Ok(Self {
            whole: serde_json::to_vec(&whole)?.into(),
            for_customers: serde_json::to_vec(&for_customers)?.into(),
        })
    }
}

impl Contract {
    /// The whole document and that for customers, which `make` generates on first use.
    pub fn new(make: impl FnOnce() -> (Value, Value) + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(|| Documents::print(make())))))
    }
}

pub fn routes() -> Routes {
    Routes::new().public(routes!(contract)).public(routes!(index)).assets("/docs/{file}", get(asset))
}

/// Get the OpenAPI document
///
/// The document for customers has no staff routes, no routes for payment providers and no registration of nodes.
#[utoipa::path(
    get, path = "/openapi.json", tag = "Contract", operation_id = "getContract",
    params(ForAudience),
    responses((status = 200, description = "An OpenAPI 3.1 document", body = Object,
               example = json!({"openapi": "3.1.0", "info": {"title": "Kitfleet", "version": "1.0.0"}, "paths": {}})),
              InvalidQuery),
)]
async fn contract(Extension(Contract(contract)): Extension<Contract>, query: Query) -> Result<impl IntoResponse> {
    let audience = query.parsed("audience", |name| match name {
        "customer" => Ok(Audience::Customer),
        _ => Err(Invalid::field("audience", "must be customer")),
    })?;
    let documents = LazyLock::force(&contract).as_ref().map_err(|error| Problem::internal(error))?;
    let printed = match audience {
        Some(Audience::Customer) => &documents.for_customers,
        None => &documents.whole,
    };
    Ok(([(CONTENT_TYPE, "application/json")], printed.clone()))
}

#[derive(Clone, Copy)]
enum Audience {
    Customer,
}

/// Audience of the document, for the contract.
struct ForAudience;

impl IntoParams for ForAudience {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let what = "Audience; by default the document has all routes";
        vec![query("audience", what, one_of(&["customer"], None)).build()]
    }
}

/// Browse the API documentation
#[utoipa::path(
    get, path = "/docs", tag = "Pages", operation_id = "browseContract",
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn index() -> Result<Response> {
    let page = file("index.html")?;
    let page = String::from_utf8_lossy(&page.bytes)
        .replace("\"./", "\"")
        .replace("href=\"", "href=\"/docs/")
        .replace("src=\"", "src=\"/docs/")
        .replace("Swagger UI", "Kitfleet API");
    Ok(([(CONTENT_SECURITY_POLICY, POLICY)], Html(page)).into_response())
}

async fn asset(params: RawPathParams) -> Result<Response> {
    let name = params.iter().next().map(|(_, name)| name).unwrap_or_default();
    let asset = file(name)?;
    let headers = [(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, "public, max-age=3600".to_owned())];
    Ok((headers, asset.bytes.into_owned()).into_response())
}

fn file(name: &str) -> Result<utoipa_swagger_ui::SwaggerFile<'static>> {
    match utoipa_swagger_ui::serve(name, CONFIG.clone()) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(Problem::new(&kinds::NOT_FOUND, "no such file")),
        Err(error) => Err(Problem::internal(&error)),
    }
}
