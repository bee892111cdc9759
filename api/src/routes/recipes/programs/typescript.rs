//! Recipes as TypeScript programs for Node. Parameters have default values instead of type annotations, from which the compiler
//! infers the same types. So Node versions without TypeScript support run the program unchanged.

use std::fmt::Write as _;

use super::{API_KEY, Answer, LanguageSyntax, Program, URL, quoted};

const WORDS: LanguageSyntax = LanguageSyntax { truth: "true", typed: |name| format!("typed(\"{name}\")") };

pub(super) fn write(program: &Program) -> String {
    let needed: Vec<_> = program.needed().map(|name| format!("\"{name}\"")).collect();
    let mut out = format!(
        "{preface}{IMPORTS}\nconst url = (process.env.{URL} ?? {default}).replace(/\\/+$/, \"\");\n\
         const needed = [{needed}];\n{HELPERS}",
        preface = program.preface(
            "//",
            "Node 22.18 or newer, or an older one as recipe.mjs",
            &format!("{API_KEY}=... node recipe.mts")
        ),
        default = quoted(program.base_url),
        needed = needed.join(", "),
    );
    for call in &program.calls {
        let done = format!("await step(\"{}\", {})", call.operation, call.body.written(&WORDS));
        let done = match &call.answer {
            Answer::Dropped => done,
            Answer::Printed => format!("console.log(JSON.stringify({done}))"),
            Answer::Bytes(file) => format!("await writeFile(\"{file}\", Buffer.from(({done}).content, \"base64\"))"),
            Answer::Text(file) => format!("await writeFile(\"{file}\", ({done}).content)"),
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

// Calls the service and returns its response. Throws on a problem.
const call = async (method = "", path = "", body = {}) => {
  const headers = { Authorization: `Bearer ${typed("KITFLEET_API_KEY")}`, "Content-Type": "application/json" };
  const signal = AbortSignal.timeout(180_000);
  const answer = await fetch(url + path, { method, headers, redirect: "error", signal, body: JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${text}`);
  return text === "" ? {} : JSON.parse(text);
};

const session = (await call("POST", "/v1/sessions")).id;

// Performs an operation on the session.
const step = (operation = "", body = {}) => call("POST", `/v1/sessions/${session}/${operation}`, body);

const end = () => call("DELETE", `/v1/sessions/${session}`);
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void end().finally(() => process.exit(1)));

try {
"#;

const END: &str = r"
} finally {
  await end();
}
";
