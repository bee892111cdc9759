//! Kitfleet's nouns, rules and SQL: one file an area, listed in [`areas`].
//!
//! Rules live in types that are parsed once at the edge. SQL lives in functions that take a connection, so that a
//! caller decides what one transaction holds. Nothing here knows HTTP, jobs or browsers.

pub mod accounts;
pub mod actors;
pub mod addresses;
pub mod agents;
pub mod api_keys;
pub mod archetypes;
pub mod area;
pub mod areas;
pub mod audit;
pub mod byok;
pub mod credentials;
pub mod crockford;
pub mod cursors;
pub mod database;
pub mod devices;
pub mod email_addresses;
pub mod emails;
pub mod events;
pub mod heavy;
pub mod identities;
pub mod ids;
pub mod limits;
pub mod machine;
pub mod mail_links;
pub mod mfa;
pub mod oauth;
pub mod operations;
pub mod passwords;
pub mod patterns;
pub mod profiles;
pub mod proxies;
pub mod recipes;
pub mod retention;
pub mod roles;
pub mod sealing;
pub mod seldom;
pub mod sessions;
pub mod sign_ins;
pub mod sign_ups;
pub mod staff;
pub mod teams;
pub mod timestamp;
mod to_come;
pub mod tokens;
pub mod turns;
pub mod usage;
pub mod validation;
pub mod vault;
pub mod web_sessions;
pub mod webhooks;
pub mod workers;
