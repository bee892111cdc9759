//! What a customer calls, an area a module: its routes, its wire types, its handlers.

pub mod accounts;
pub mod agents;
pub mod api_keys;
pub mod archetypes;
pub mod audit_log;
pub mod byok;
pub mod devices;
pub mod docs;
pub mod emails;
pub mod health;
pub mod identities;
pub mod metrics;
pub mod mfa;
pub mod notifications;
pub mod oauth;
pub mod pages;
pub mod profiles;
pub mod proxies;
pub mod recipes;
pub mod sessions;
pub mod sign_ins;
pub mod staff;
pub mod teams;
pub mod usage;
pub mod web_sessions;
pub mod webhooks;
