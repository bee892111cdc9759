//! Recipes as TypeScript programs for Node. Parameters have default values instead of type annotations, from which the compiler
//! infers the same types. So Node versions without TypeScript support run the program unchanged.

use std::fmt::Write as _;

use super::{API_KEY, Answer, LanguageSyntax, Program, Request, URL, quoted};

const WORDS: LanguageSyntax = LanguageSyntax { truths: ["false", "true"], typed: |name| format!("typed(\"{name}\")") };

pub(super) fn write(program: &Program) -> String {
    let needed: Vec<_> = program.needed().map(|name| format!("\"{name}\"")).collect();
    let mut out = format!(
        "{file_header}{IMPORTS}\nconst url = (process.env.{URL} ?? {default}).replace(/\\/+$/, \"\");\n\
         const needed = [{needed}];\n{HELPERS}{begin}",
        file_header = program.file_header(
            "//",
            "Node 22.18 or newer, or an older one as recipe.mjs",
            &format!("{API_KEY}=... node recipe.mts")
        ),
        default = quoted(program.base_url),
        needed = needed.join(", "),
        begin = BEGIN.replace("BODY", &program.creates().written(&WORDS)),
    );
    for call in &program.calls {
        let done = match &call.request {
            Request::Operation(operation, body) => format!("await step(\"{operation}\", {})", body.written(&WORDS)),
            Request::Emulation(body) => format!("await emulate({})", body.written(&WORDS)),
            Request::ActivatePage(position) => format!("await activatePage({position})"),
            Request::ClosePage(position) => format!("await closePage({position})"),
        };
        let done = match &call.answer {
            Answer::Dropped => done,
            Answer::Printed => format!("console.log(JSON.stringify({done}))"),
            Answer::Bytes(file) => format!("await writeFile(\"{file}\", Buffer.from(({done}).content, \"base64\"))"),
            Answer::Text(file) => format!("await writeFile(\"{file}\", ({done}).content)"),
            Answer::Download(file) => format!("await download(\"{file}\", {done})"),
        };
        write!(out, "\n  // {}\n  {done};\n", call.what).expect("writing to a String cannot fail");
    }
    out.push_str(END);
    out
}

const IMPORTS: &str = "
import { Buffer } from \"node:buffer\";
import { writeFile } from \"node:fs/promises\";
import process from \"node:process\";
";

const HELPERS: &str = r#"
const missing = needed.filter((name) => process.env[name] === undefined);
if (missing.length > 0) {
  console.error(`not set: ${missing.join(", ")}`);
  process.exit(1);
}
const typed = (name = "") => process.env[name] ?? "";

// Calls the service and returns the bytes of its response. Throws on a problem.
const raw = async (method = "", path = "", body = {}) => {
  const headers = { Authorization: `Bearer ${typed("KITFLEET_API_KEY")}`, "Content-Type": "application/json" };
  const signal = AbortSignal.timeout(180_000);
  const sent = method === "GET" ? {} : { body: JSON.stringify(body) };
  const answer = await fetch(url + path, { method, headers, redirect: "error", signal, ...sent });
  const content = Buffer.from(await answer.arrayBuffer());
  if (!answer.ok) throw new Error(`${method} ${path}: ${content.toString()}`);
  return content;
};

// Calls the service and returns its response.
const call = async (method = "", path = "", body = {}) => {
  const content = await raw(method, path, body);
  return content.length === 0 ? {} : JSON.parse(content.toString());
};
"#;

const BEGIN: &str = r#"
const session = (await call("POST", "/v1/sessions", BODY)).id;

// Performs an operation on the session.
const step = (operation = "", body = {}) => call("POST", `/v1/sessions/${session}/${operation}`, body);

// Changes the emulation of the session.
const emulate = (body = {}) => call("PATCH", `/v1/sessions/${session}/emulation`, body);

// Returns the path of the page at this position in the list of pages.
const page = async (position = 1) => {
  const path = `/v1/sessions/${session}/pages`;
  const { data } = await call("GET", path);
  if (position > data.length) throw new Error(`there is no page ${position}`);
  return `${path}/${data[position - 1].id}`;
};

const activatePage = async (position = 1) => call("POST", `${await page(position)}/activate`);
const closePage = async (position = 1) => call("DELETE", await page(position));

// Saves the download that a wait has found.
const download = async (name = "", waited = { download: { id: "" } }) =>
  writeFile(name, await raw("GET", `/v1/sessions/${session}/downloads/${waited.download.id}/content`));

const end = () => call("DELETE", `/v1/sessions/${session}`);
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void end().finally(() => process.exit(1)));

try {
"#;

const END: &str = r"
} finally {
  await end();
}
";
