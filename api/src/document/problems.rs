//! Problems in the contract. Operations that return the same kinds of problems with a status share one response, which is named
//! after the kinds.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use serde_json::{Map, Value, json};

use super::{RATE_LIMITS, REQUEST_ID, RETRY_AFTER, add_headers, sorted};
use crate::http::kinds::{self, Kind};
use crate::http::openapi::problem_key;
use crate::http::problems::MEDIA_TYPE;

#[derive(Default)]
pub struct Answers(BTreeMap<String, Answer>);

struct Answer {
    kinds: Vec<&'static Kind>,
    headers: BTreeSet<&'static str>,
}

impl Answers {
    /// By status. The responses can have these `headers`.
    pub fn share(&mut self, responses: &mut Map<String, Value>, headers: &[&'static str]) {
        let mut by_status: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for kind in kinds::named() {
            if responses.shift_remove(&problem_key(kind)).is_some() {
                by_status.entry(kind.status.as_str()).or_default().push(kind);
            }
        }
        for (status, kinds) in by_status {
            let name = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join("Or");
            responses.insert(status.to_owned(), json!({"$ref": format!("#/components/responses/{name}")}));
            let answer = self.0.entry(name).or_insert_with(|| Answer { kinds, headers: BTreeSet::from([REQUEST_ID]) });
            answer.headers.extend(headers);
        }
    }

    pub fn components(self) -> (Value, Map<String, Value>) {
        let mut schemas = Map::from_iter([("Problem".to_owned(), problem()), ("ProblemCode".to_owned(), code())]);
        let mut answers = Map::new();
        for (name, answer) in self.0 {
            schemas.extend(answer.variants().into_iter().map(|kinds| (schema_name(&kinds), schema(&kinds))));
            answers.insert(name, answer.into());
        }
        (answers.into(), schemas)
    }
}

impl Answer {
    /// Kinds by their code, which distinguishes the variants of a union.
    fn variants(&self) -> Vec<Vec<&'static Kind>> {
        let mut variants: Vec<Vec<&'static Kind>> = Vec::new();
        for kind in &self.kinds {
            match variants.iter_mut().find(|kinds| kinds.iter().any(|other| other.slug == kind.slug)) {
                Some(kinds) => kinds.push(kind),
                None => variants.push(vec![kind]),
            }
        }
        variants
    }
}

impl From<Answer> for Value {
    fn from(answer: Answer) -> Self {
        let variants = answer.variants();
        let Answer { kinds, mut headers } = answer;
        let is = |one: &Kind| kinds.iter().any(|kind| ptr::eq(*kind, one));
        if is(&kinds::RATE_LIMITED) {
            headers.extend(RATE_LIMITS);
        }
        if [&kinds::RATE_LIMITED, &kinds::CAPACITY_EXHAUSTED, &kinds::FEATURE_UNAVAILABLE].into_iter().any(is) {
            headers.insert(RETRY_AFTER);
        }
        let lines: Vec<_> = kinds.iter().map(|kind| format!("`{}`: {}", kind.slug, kind.meaning)).collect();
        let reference = |kinds: &[&'static Kind]| format!("#/components/schemas/{}", schema_name(kinds));
        let schema = if let [only] = variants.as_slice() {
            json!({"$ref": reference(only)})
        } else {
            let mapping: Map<_, _> =
                variants.iter().map(|kinds| (kinds[0].slug.to_owned(), reference(kinds).into())).collect();
            json!({
                "oneOf": variants.iter().map(|kinds| json!({"$ref": reference(kinds)})).collect::<Vec<_>>(),
                "discriminator": {"propertyName": "code", "mapping": mapping},
            })
        };
        let mut response = json!({"description": lines.join("\n\n")});
        add_headers(&mut response, &headers.into_iter().collect::<Vec<_>>());
        response["content"] = json!({MEDIA_TYPE: {"schema": schema}});
        response
    }
}

fn schema_name(kinds: &[&Kind]) -> String {
    format!("{}Problem", kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join("Or"))
}

fn code() -> Value {
    let codes: BTreeSet<_> = kinds::named().map(|kind| kind.slug).collect();
    json!({
        "type": "string", "x-extensible-enum": codes,
        "description": "Kind of problem: the last path segment of `type`. Clients must accept unknown values",
    })
}

fn problem() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "type": "object",
        "description": "A problem document (RFC 9457)",
        "required": ["type", "code", "title", "status", "detail", "instance", "request_id"],
        "properties": {
            "type": text("Kind of problem: address of a page that explains it. The last path segment identifies the kind"),
            "code": {"$ref": "#/components/schemas/ProblemCode"},
            "title": text("Short name of the kind"),
            "status": {"type": "integer", "description": "HTTP status"},
            "detail": text("Explanation of this occurrence"),
            "instance": text("Path of the request"),
            "request_id": text("Request ID, also in `X-Request-Id`"),
        },
    })
}

/// The service's address is not part of the contract, so the schema matches only the end of `type`. The kinds have one code and
/// one status; a member that not all of them have is optional.
fn schema(kinds: &[&'static Kind]) -> Value {
    let first = kinds[0];
    let is_of = |member: &Member, kind: &Kind| member.of.iter().any(|of| ptr::eq(*of, kind));
    let own: Vec<_> = members().into_iter().filter(|member| kinds.iter().any(|kind| is_of(member, kind))).collect();
    let mut properties = json!({
        "type": {"type": "string", "pattern": format!("/{}$", first.slug)},
        "code": {"type": "string", "enum": [first.slug]},
        "status": {"type": "integer", "enum": [first.status.as_u16()]},
    });
    let mut example = json!({
        "type": format!("https://kitfleet.example/errors/{}", first.slug), "code": first.slug, "title": first.title,
        "status": first.status.as_u16(), "detail": first.meaning, "instance": "/v1/sessions",
        "request_id": "019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e",
    });
    let mut required = vec!["type", "code", "status"];
    for member in own {
        let of_all = kinds.iter().all(|kind| is_of(&member, kind));
        let of_first = is_of(&member, first);
        let Member { name, schema, example: shown, always, .. } = member;
        properties[name] = schema;
        if always && of_all {
            required.push(name);
        }
        if always && of_first {
            example[name] = shown;
        }
    }
    json!({
        "allOf": [
            {"$ref": "#/components/schemas/Problem"},
            {"type": "object", "required": required, "properties": sorted(super::members(&mut properties))},
        ],
        "example": example,
    })
}

struct Member {
    of: Vec<&'static Kind>,
    name: &'static str,
    schema: Value,
    example: Value,
    /// Every problem of these kinds has the member.
    always: bool,
}

fn members() -> Vec<Member> {
    let number = |description: &str| json!({"type": "integer", "description": description});
    let errors = json!({
        "type": "array", "description": "Invalid fields, with the reasons",
        "items": {
            "title": "FieldError", "type": "object", "required": ["field", "message"],
            "properties": {
                "field": {"type": "string", "description": "Dotted path, such as `action.text`"},
                "message": {"type": "string", "description": "Rule that the field violates"},
            },
        },
    });
    let candidates = json!({
        "type": "array", "description": "First elements that match an ambiguous target, at most five",
        "items": {"$ref": "#/components/schemas/Candidate"},
    });
    let options = json!({
        "type": "array", "description": "Available options if the requested one does not exist, at most 100",
        "items": {
            "title": "MenuOption", "type": "object", "required": ["value", "label"],
            "properties": {
                "value": {"type": "string", "description": "Value that the form submits"},
                "label": {"type": "string", "description": "Label of the option"},
            },
        },
    });
    let reason = json!({
        "type": "string", "title": "StepUpReason", "enum": ["never_satisfied", "expired"],
        "description": "Reason: the session never proved a second factor, or its last proof is too old",
    });
    let member = |of, name, schema, example| Member { of, name, schema, example, always: true };
    let at_times = |of, name, schema| Member { of, name, schema, example: Value::Null, always: false };
    let withheld = || vec![&kinds::DRIVER_ERROR];
    vec![
        member(
            vec![&kinds::VALIDATION_FAILED],
            "errors",
            errors,
            json!([{"field": "label", "message": "must have at most 120 characters"}]),
        ),
        at_times(vec![&kinds::VALIDATION_FAILED], "candidates", candidates),
        at_times(vec![&kinds::VALIDATION_FAILED], "options", options),
        member(vec![&kinds::CONCURRENCY_LIMIT], "current_sessions", number("Live sessions of the account"), 2.into()),
        member(vec![&kinds::PROFILE_LIMIT], "current_profiles", number("Profiles of the account"), 25.into()),
        member(vec![&kinds::SNAPSHOT_LIMIT], "current_snapshots", number("Snapshots of the profile"), 50.into()),
        member(
            vec![&kinds::CONCURRENCY_LIMIT, &kinds::PROFILE_LIMIT, &kinds::SNAPSHOT_LIMIT],
            "limit",
            number("Maximum number"),
            2.into(),
        ),
        at_times(
            vec![&kinds::RATE_LIMITED],
            "limit",
            number("Maximum number of requests per account and hour, if the limit is per account"),
        ),
        at_times(vec![&kinds::CONFLICT], "limit", number("Maximum number, if the conflict is a reached limit")),
        member(
            vec![&kinds::PROFILE_BYTES_LIMIT],
            "current_bytes",
            number("Bytes stored by the account's profiles and snapshots, sealed"),
            17_179_869_184_i64.into(),
        ),
        member(
            vec![&kinds::PROFILE_IN_USE],
            "active_session_id",
            json!({"type": "string", "description": "Session that uses the profile"}),
            "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e".into(),
        ),
        member(
            vec![&kinds::AGENT_BYTES_LIMIT],
            "bytes",
            number("Bytes stored by the account's agent sessions, sealed"),
            268_435_456.into(),
        ),
        member(
            vec![&kinds::MFA_STEP_UP_REQUIRED],
            "requires_mfa_step_up",
            json!({"type": "boolean", "enum": [true]}),
            true.into(),
        ),
        member(vec![&kinds::MFA_STEP_UP_REQUIRED], "reason", reason, "expired".into()),
        member(
            vec![&kinds::PAYLOAD_TOO_LARGE, &kinds::PROFILE_BYTES_LIMIT, &kinds::AGENT_BYTES_LIMIT],
            "limit_bytes",
            number("Maximum number of bytes"),
            1_048_576.into(),
        ),
        at_times(withheld(), "bytes", number("Size of a result that is too large")),
        at_times(withheld(), "limit_bytes", number("Maximum size, if the result is too large")),
        at_times(withheld(), "matches", number("Number of matches, if a list is too long")),
        at_times(withheld(), "limit_matches", number("Maximum number of matches, if a list is too long")),
    ]
}
