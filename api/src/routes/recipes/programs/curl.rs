//! Recipes as Bash scripts with curl. They need no JSON tool: only the typed texts have to be encoded at run time.

use std::fmt::Write as _;

use super::{API_KEY, Answer, LanguageSyntax, Program, Request, URL};

const WORDS: LanguageSyntax =
    LanguageSyntax { truths: ["false", "true"], typed: |name| format!(r#"'"$(json "${name}")"'"#) };

pub(super) fn write(program: &Program) -> String {
    let needed: Vec<_> = program.needed().map(|name| format!("\"${{{name}?is not set}}\"")).collect();
    let mut out = format!(
        "#!/usr/bin/env bash\n{file_header}set -euo pipefail\n\n: {needed}\nurl=${{{URL}:-{default}}}\n{HELPERS}{begin}",
        file_header =
            program.file_header("#", "Bash and curl, 7.76 or newer", &format!("{API_KEY}=... bash recipe.sh")),
        needed = needed.join(" "),
        default = in_apostrophes(program.base_url),
        begin = BEGIN.replace("BODY", &program.creates().written(&WORDS)),
    );
    for call in &program.calls {
        let done = match &call.request {
            Request::Operation(operation, body) => format!("step {operation} '{}'", body.written(&WORDS)),
            Request::Emulation(body) => format!("emulate '{}'", body.written(&WORDS)),
            Request::ActivatePage(position) => format!("activate_page {position}"),
            Request::ClosePage(position) => format!("close_page {position}"),
        };
        let then = match &call.answer {
            Answer::Dropped => " >/dev/null".to_owned(),
            Answer::Printed => "\necho".to_owned(),
            Answer::Bytes(file) => format!(" | content | base64 --decode >{file}"),
            Answer::Text(file) => format!(" >{file}.json"),
            Answer::Download(file) => format!(" | download {file}"),
        };
        write!(out, "\n# {}\n{done}{then}\n", call.what).expect("writing to a String cannot fail");
    }
    out
}

fn in_apostrophes(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Every user of a machine can read the arguments of a process, so the API key is not one of them.
const HELPERS: &str = r#"
# json TEXT: prints the text as a JSON string.
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

# call METHOD PATH BODY: prints the response. Exits on a problem.
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

# step OPERATION BODY: performs an operation on the session.
step() { call POST "/v1/sessions/$session/$1" "$2"; }

# content: extracts the content from the response of a capture.
content() { sed 's/.*"content":"\([^"]*\)".*/\1/'; }

# emulate BODY: changes the emulation of the session.
emulate() { call PATCH "/v1/sessions/$session/emulation" "$1"; }

# page POSITION: prints the ID of the page at this position. The lists of pages are in order.
page() {
  local pages
  pages=$(call GET "/v1/sessions/$session/pages" '')
  grep -o '"id":"page_[0-9a-f-]*"' <<<"$pages" | sed -n "$1s/.*\(page_[0-9a-f-]*\).*/\1/p"
}

# activate_page POSITION: makes a page the active one.
activate_page() { local id; id=$(page "$1"); call POST "/v1/sessions/$session/pages/$id/activate" ''; }

# close_page POSITION: closes a page.
close_page() { local id; id=$(page "$1"); call DELETE "/v1/sessions/$session/pages/$id" ''; }

# download FILE: saves the download that a wait has found.
download() {
  local answer
  answer=$(cat)
  [[ $answer =~ \"id\":\"(dl_[0-9a-f-]+)\" ]]
  curl --silent --show-error --fail --max-time 180 --output "$1" \
    --header @<(printf 'Authorization: Bearer %s\n' "$KITFLEET_API_KEY") \
    "${url%/}/v1/sessions/$session/downloads/${BASH_REMATCH[1]}/content"
}
"#;

const BEGIN: &str = r#"
created=$(call POST /v1/sessions 'BODY')
[[ $created =~ \"id\":\"(ses_[0-9a-f-]+)\" ]]
session=${BASH_REMATCH[1]}
trap 'call DELETE "/v1/sessions/$session" "" >/dev/null' EXIT
"#;
