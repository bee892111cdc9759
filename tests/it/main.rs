//! The whole service from outside: the real binary, a real Postgres, real HTTP and, where a test's module says so, real WebKit.
//! Each test names the rule of the contract (docs/contract) that it holds.

#![expect(clippy::disallowed_methods, reason = "tests find their database server and their PATH in the environment")]
#![expect(clippy::print_stderr, reason = "a failing test shows what its service logged")]

mod accounts;
mod agent_grammar;
mod agents;
mod api_keys;
mod archetypes;
mod audit_log;
mod authentication;
mod authorization;
mod byok;
mod card;
mod challenges;
mod citations;
mod command_line;
mod connections;
mod contract;
mod crypto;
mod devices;
mod draining;
mod egress;
mod emails;
mod faults;
mod growth;
mod http;
mod identities;
mod ledger;
mod live;
mod livekit;
mod metrics;
mod mfa;
mod migrations;
mod models;
mod monitoring;
mod notifications;
mod oauth;
mod operation_path;
mod operations;
mod orchestration;
mod outages;
mod pages;
mod pooler;
mod profiles;
mod proxies;
mod purges;
mod rate_limits;
mod recipes;
mod retention;
mod sessions;
mod sign_ins;
mod slots;
mod staff;
mod status;
mod stores;
mod support;
mod teams;
mod teams_keys;
mod timing;
mod usage;
mod web_sessions;
mod webhooks;
mod webhooks_secrets;
mod webhooks_verify;
mod webkit;
