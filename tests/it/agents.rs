//! Agent sessions with the simulated driver (contract: agents).

mod creating;
mod faults;
mod lanes;
mod models;
mod quota;
mod receipts;
mod turns;

use serde_json::{Value, json};

use crate::support::{Answer, Client};

impl Client {
    pub async fn agent_session(&self, body: Value) -> Value {
        self.post("/v1/agent-sessions", body).await.expect(201).body
    }

    pub async fn agent(&self) -> String {
        id_of(&self.agent_session(json!({})).await)
    }

    pub async fn post_to_agent(&self, agent: &str, what: &str, body: Value) -> Answer {
        self.post(&format!("/v1/agent-sessions/{agent}/{what}"), body).await
    }

    pub async fn get_agent(&self, agent: &str) -> Value {
        self.get(&format!("/v1/agent-sessions/{agent}")).await.expect(200).body
    }
}

pub fn id_of(agent: &Value) -> String {
    agent["id"].as_str().expect("an id").to_owned()
}

pub fn driver_of(agent: &Value) -> String {
    agent["session_id"].as_str().expect("a driver session").to_owned()
}
