//! In Bash, with curl. Nothing else is needed: the one text that has to become JSON while it runs is what somebody types.

use std::fmt::Write as _;

use super::{API_KEY, Answer, Program, URL, Words};

const WORDS: Words = Words { truth: "true", typed: |name| format!(r#"'"$(json "${name}")"'"#) };

pub(super) fn write(program: &Program) -> String {
    let needed: Vec<_> = program.needed().map(|name| format!("\"${{{name}?is not set}}\"")).collect();
    let mut out = format!(
        "#!/usr/bin/env bash\n{preface}set -euo pipefail\n\n: {needed}\nurl=${{{URL}:-{default}}}\n{HELPERS}",
        preface = program.preface("#", "Bash and curl, 7.76 or newer", &format!("{API_KEY}=... bash recipe.sh")),
        needed = needed.join(" "),
        default = in_apostrophes(program.base_url),
    );
    for call in &program.calls {
        let body = call.body.written(&WORDS);
        let operation = call.operation;
        let then = match &call.answer {
            Answer::Dropped => " >/dev/null".to_owned(),
            Answer::Printed => "\necho".to_owned(),
            Answer::Bytes(file) => format!(" | content | base64 --decode >{file}"),
            Answer::Text(file) => format!(" >{file}.json"),
        };
        write!(out, "\n# {}\nstep {operation} '{body}'{then}\n", call.what).expect("a text takes all");
    }
    out
}

/// A text as a shell takes it as it is.
fn in_apostrophes(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A key does not stand among a program's arguments, which everybody on a machine can read.
const HELPERS: &str = r#"
# json TEXT: as JSON has it.
json() {
  local LC_ALL=C text=$1 code letter escape
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  for code in {1..31}; do
    printf -v escape '\\u%04x' "$code"
    printf -v letter "\\x${escape:4}"
    text=${text//"$letter"/"$escape"}
  done
  printf '"%s"' "$text"
}

# call METHOD PATH BODY: prints the answer. A problem is shown, and ends the program.
call() {
  local answer
  if ! answer=$(printf '%s' "$3" | curl --silent --show-error --fail-with-body --max-time 180 --request "$1" \
    --header @<(printf 'Authorization: Bearer %s\n' "$KITFLEET_API_KEY") \
    --header 'Content-Type: application/json' --data-binary @- "${url%/}$2"); then
    printf '%s %s: %s\n' "$1" "$2" "$answer" >&2
    return 1
  fi
  printf '%s' "$answer"
}

# step OPERATION BODY: an operation on the session.
step() { call POST "/v1/sessions/$session/$1" "$2"; }

# content: of a capture's answer.
content() { sed 's/.*"content":"\([^"]*\)".*/\1/'; }

created=$(call POST /v1/sessions '{}')
[[ $created =~ \"id\":\"(ses_[0-9a-f-]+)\" ]]
session=${BASH_REMATCH[1]}
trap 'call DELETE "/v1/sessions/$session" "" >/dev/null' EXIT
"#;
