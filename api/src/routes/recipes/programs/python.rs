//! Recipes as Python programs that use only the standard library.

use std::fmt::Write as _;

use super::{API_KEY, Answer, LanguageSyntax, Program, Request, URL, quoted};

const WORDS: LanguageSyntax =
    LanguageSyntax { truths: ["False", "True"], typed: |name| format!("os.environ[\"{name}\"]") };

pub(super) fn write(program: &Program) -> String {
    let needed: Vec<_> = program.needed().map(|name| format!("\"{name}\"")).collect();
    let mut out = format!(
        "#!/usr/bin/env python3\n{file_header}{IMPORTS}\nURL = os.environ.get(\"{URL}\", {default}).rstrip(\"/\")\n\
         NEEDED = [{needed}]\n{HELPERS}{begin}",
        file_header = program.file_header("#", "Python 3.8 or newer", &format!("{API_KEY}=... python3 recipe.py")),
        default = quoted(program.base_url),
        needed = needed.join(", "),
        begin = BEGIN.replace("BODY", &program.creates().written(&WORDS)),
    );
    for call in &program.calls {
        let done = match &call.request {
            Request::Operation(operation, body) => format!("step(\"{operation}\", {})", body.written(&WORDS)),
            Request::Emulation(body) => format!("emulate({})", body.written(&WORDS)),
            Request::ActivatePage(position) => format!("activate_page({position})"),
            Request::ClosePage(position) => format!("close_page({position})"),
        };
        let done = match &call.answer {
            Answer::Dropped => done,
            Answer::Printed => format!("print(json.dumps({done}))"),
            Answer::Bytes(file) => format!("keep(\"{file}\", base64.b64decode({done}[\"content\"]))"),
            Answer::Text(file) => format!("keep(\"{file}\", {done}[\"content\"].encode())"),
            Answer::Download(file) => format!("download(\"{file}\", {done})"),
        };
        write!(out, "\n    # {}\n    {done}\n", call.what).expect("writing to a String cannot fail");
    }
    out.push_str(END);
    out
}

const IMPORTS: &str = "
import base64
import json
import os
import signal
import sys
import urllib.error
import urllib.request
";

const HELPERS: &str = r#"
missing = [name for name in NEEDED if name not in os.environ]
if missing:
    sys.exit("not set: " + ", ".join(missing))


def raw(method, path, body=None):
    """Calls the service and returns the bytes of its response. Exits on a problem."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + os.environ["KITFLEET_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=180) as answer:
            return answer.read()
    except urllib.error.HTTPError as problem:
        sys.exit(f"{method} {path}: {problem.read().decode()}")


def call(method, path, body=None):
    """Calls the service and returns its response."""
    text = raw(method, path, body)
    return json.loads(text) if text else None


def step(operation, body):
    """Performs an operation on the session."""
    return call("POST", f"/v1/sessions/{session}/{operation}", body)


def emulate(body):
    """Changes the emulation of the session."""
    return call("PATCH", f"/v1/sessions/{session}/emulation", body)


def page(position):
    """Returns the path of the page at this position in the list of pages."""
    path = f"/v1/sessions/{session}/pages"
    pages = call("GET", path)["data"]
    if position > len(pages):
        sys.exit(f"there is no page {position}")
    return path + "/" + pages[position - 1]["id"]


def activate_page(position):
    """Makes a page the active one."""
    return call("POST", page(position) + "/activate")


def close_page(position):
    """Closes a page."""
    return call("DELETE", page(position))


def download(name, waited):
    """Saves the download that a wait has found."""
    keep(name, raw("GET", f"/v1/sessions/{session}/downloads/{waited['download']['id']}/content"))


def keep(name, content):
    with open(name, "wb") as file:
        file.write(content)

"#;

const BEGIN: &str = r#"
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
session = call("POST", "/v1/sessions", BODY)["id"]
try:
    pass
"#;

const END: &str = r#"
finally:
    call("DELETE", f"/v1/sessions/{session}")
"#;
