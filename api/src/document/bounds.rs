//! Bounds in schemas that an operator can change: the document has the limits in force.

use std::time::Duration;

use serde_json::Value;

use super::DocumentConfig;

/// Each route declares its default.
pub fn apply(components: &mut Value, config: &DocumentConfig<'_>) {
    for (schema, field, keyword, value) in of_fields(config) {
        components["schemas"][schema]["properties"][field][keyword] = value.into();
    }
    components["parameters"]["Limit"]["schema"]["maximum"] = config.limits.page_max.into();
}

fn of_fields(config: &DocumentConfig<'_>) -> Vec<(&'static str, &'static str, &'static str, u64)> {
    let limits = config.limits;
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let chars = |chars: usize| chars as u64;
    let label = chars(limits.label_chars);
    let mut bounds = vec![
        ("TypeAction", "text", "maxLength", chars(limits.type_text_chars)),
        ("TypeAction", "delay_ms", "maximum", limits.type_delay_ms),
        ("DialogAction", "text", "maxLength", chars(limits.type_text_chars)),
        ("PressAction", "key", "maxLength", chars(limits.press_key_chars)),
        ("TimeCondition", "ms", "maximum", milliseconds(limits.max_time_wait)),
        ("Extract", "extractions", "maxItems", chars(limits.extractions)),
        ("SessionSearch", "query", "maxLength", chars(limits.query_chars)),
        ("SessionSearch", "timeout_seconds", "maximum", limits.max_form_timeout.as_secs()),
        ("SessionLogin", "username", "maxLength", chars(limits.query_chars)),
        ("SessionLogin", "password", "maxLength", chars(limits.query_chars)),
        ("SessionLogin", "timeout_seconds", "maximum", limits.max_form_timeout.as_secs()),
        ("SessionCreate", "label", "maxLength", label),
        ("ProfileLaunch", "label", "maxLength", label),
        ("AgentSessionCreate", "token_budget", "maximum", config.max_token_budget.into()),
        ("CreateRecipe", "description", "maxLength", chars(limits.recipe_description_chars)),
        ("InitiateDevice", "state", "minLength", chars(limits.device_state_min_chars)),
        ("InitiateDevice", "state", "maxLength", chars(limits.device_state_max_chars)),
        ("SignUp", "password", "minLength", chars(limits.password_min_chars)),
        ("ResetPassword", "new_password", "minLength", chars(limits.password_min_chars)),
        ("UpdateTeam", "name", "maxLength", chars(limits.team_name_chars)),
        ("CreateWebhook", "events", "maxItems", chars(limits.webhook_events)),
        ("UpdateWebhook", "events", "maxItems", chars(limits.webhook_events)),
    ];
    for schema in ["Navigate", "Interact", "Wait", "Evaluate"] {
        bounds.push((schema, "timeout_ms", "minimum", milliseconds(limits.min_timeout)));
        bounds.push((schema, "timeout_ms", "maximum", milliseconds(limits.max_timeout)));
    }
    bounds
}

#[cfg(test)]
mod tests {
    use kitfleet_types::limits::Limits;

    use super::*;
    use crate::router;

    /// Routes declare the default of each bound.
    #[test]
    fn declared_bounds_equal_the_default_limits() {
        let limits = Limits::default();
        let config = DocumentConfig { base_url: "http://localhost", limits: &limits, max_token_budget: 1_000_000 };
        let (_, described, rows) = router::routes().split();
        let declared = super::super::assemble(described, &rows, config.base_url);
        for (schema, field, keyword, value) in of_fields(&config) {
            let schemas = &declared["components"]["schemas"];
            assert_eq!(schemas[schema]["properties"][field][keyword], value, "{schema}.{field} {keyword}");
        }
        assert_eq!(declared["components"]["parameters"]["Limit"]["schema"]["maximum"], limits.page_max);
    }

    /// Contract: limits 1.
    #[test]
    fn document_has_the_configured_limits() {
        let limits = Limits { type_text_chars: 77, page_max: 9, ..Limits::default() };
        let config = DocumentConfig { base_url: "http://localhost", limits: &limits, max_token_budget: 5 };
        let document = router::openapi(&config);
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["TypeAction"]["properties"]["text"]["maxLength"], 77);
        assert_eq!(schemas["AgentSessionCreate"]["properties"]["token_budget"]["maximum"], 5);
        assert_eq!(document["components"]["parameters"]["Limit"]["schema"]["maximum"], 9);
    }
}
