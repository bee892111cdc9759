#!/usr/bin/env python3
"""Runs the programs of this folder and the examples of the documentation against a service.

    tests/clients/run.py [--walks] [--examples ts|python] [--only NAME …]

`--walks` runs only the programs of this folder, `--examples` only the examples in a language, and `--only` those whose names contain
a NAME. The service is that of `KITFLEET_URL` with `KITFLEET_API_KEY`. Without them the script starts one with the program
`KITFLEET_BIN` (target/debug/kitfleet by default). `clients/test --prepare` installs the interpreter and builds the TypeScript
package.
"""

import argparse
import collections
import concurrent.futures
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BINARY = os.environ.get("KITFLEET_BIN", str(ROOT / "target/debug/kitfleet"))
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PYTHON = os.environ.get("PYTHON", str(TARGET / "clients/tools/bin/python"))
PROGRAM_TIME = 120
SUFFIXES = {"ts": ".ts", "python": ".py", "sh": ".sh"}

SHOP = """<!doctype html><meta charset="utf-8"><title>Läden</title>
<h1>Not signed in</h1>
<button onclick="window.open('/sign-in')">Sign in</button>
<label>Receipt <input type="file" onchange="out.textContent = files[0].name + ' ' + files[0].size"></label><p id="out"></p>
<ul><li><b>Schuhe</b> <i>1’299.50 CHF</i></li><li><b>Strümpfe</b> <i>19.90 CHF</i></li></ul>
<script>
  const show = () => { const user = decodeURIComponent((document.cookie.match(/user=([^;]*)/) || [])[1] || ''); if (user) document.querySelector('h1').textContent = 'Hello, ' + user; };
  addEventListener('message', (event) => { document.cookie = 'user=' + encodeURIComponent(event.data) + '; max-age=86400'; show(); });
  show();
</script>"""
SIGN_IN = """<!doctype html><meta charset="utf-8"><title>Sign in</title>
<label>Name <input id="name"></label>
<button onclick="opener.postMessage(document.getElementById('name').value, '*'); window.close()">Continue</button>"""
PAY = """<!doctype html><meta charset="utf-8"><title>Kasse</title>
<form action="/paid"><input type="hidden" name="by" value="%s"><button>Pay now</button></form>"""
PAID = """<!doctype html><meta charset="utf-8"><title>Quittung</title><h1>Paid for the %d. time</h1>"""


class Site(http.server.BaseHTTPRequestHandler):
    pages = {"/": SHOP, "/sign-in": SIGN_IN}
    payments = collections.Counter()

    def page(self):
        address = urllib.parse.urlsplit(self.path)
        by = urllib.parse.parse_qs(address.query).get("by", [""])[0]
        if address.path == "/pay":
            return PAY % by
        if address.path == "/paid":
            self.payments[by] += 1
            return PAID % self.payments[by]
        if address.path == "/payments":
            return str(self.payments[by])
        return self.pages.get(address.path)

    def do_GET(self):
        page = self.page()
        body = (page or "").encode()
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Service:
    """`kitfleet up` with a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        key = subprocess.run(["openssl", "rand", "-base64", "32"], capture_output=True, text=True, check=True).stdout.strip()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL" and not name.startswith("KITFLEET_")}
        environment.update(
            KITFLEET_DATA_DIR=str(folder / "data"),
            KITFLEET_SERVER__LISTEN=f"127.0.0.1:{port}",
            KITFLEET_SESSIONS__ALLOW_PRIVATE_TARGETS="true",
            KITFLEET_MFA__ENCRYPTION_KEY=key,
        )
        self.log = folder / "service.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([BINARY, "up"], env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        deadline = time.monotonic() + 120
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("The service did not start:\n" + self.log.read_text()[-3000:])
            time.sleep(0.1)
        self.key = (folder / "data/owner-key").read_text().strip()

    def is_ready(self):
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=5) as answer:
                return answer.status == 200 and (self.folder / "data/owner-key").exists()
        except OSError:
            return False

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def free_port():
    with http.server.HTTPServer(("127.0.0.1", 0), Site) as server:
        return server.server_port


def examples():
    """(name, language, text) of each example of the documentation."""
    pages = sorted((ROOT / "docs/clients").glob("*.md")) + [ROOT / "clients/typescript/README.md", ROOT / "clients/python/README.md"]
    for page in pages:
        text = page.read_text()
        for found in re.finditer(r"(?ms)^```(ts|python)\n(.*?)^```$", text):
            yield f"{page.relative_to(ROOT)}:{text[: found.start()].count(chr(10)) + 1}", found[1], found[2]


def command(language, path):
    return {"ts": ["node", str(path)], "python": [PYTHON, "-X", "utf8", "-W", "error::ResourceWarning", str(path)], "sh": ["bash", str(path)]}[language]


def run(name, language, path, folder, environment):
    started = time.monotonic()
    try:
        done = subprocess.run(command(language, path), cwd=folder, env=environment, capture_output=True, text=True, timeout=PROGRAM_TIME)
        return name, done.returncode, done.stdout, done.stderr, time.monotonic() - started
    except subprocess.TimeoutExpired as error:
        return name, -1, str(error.stdout), f"not finished after {PROGRAM_TIME} s", time.monotonic() - started


def compile_typescript(folder, programs):
    """Type-checks the programs as a customer would, and writes JavaScript that this version of Node runs."""
    package = folder / "node_modules/@kitfleet"
    package.mkdir(parents=True)
    (package / "sdk").symlink_to(ROOT / "clients/typescript")
    (folder / "node_modules/@types").symlink_to(ROOT / "clients/typescript/node_modules/@types")
    (folder / "package.json").write_text('{"type": "module"}')
    options = {"target": "ES2022", "module": "NodeNext", "moduleResolution": "NodeNext", "lib": ["ES2022", "DOM", "DOM.Iterable", "ESNext.Disposable"], "types": ["node"], "strict": True, "outDir": "built", "rootDir": "."}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": programs}))
    compiler = ROOT / "clients/typescript/node_modules/.bin/tsc"
    done = subprocess.run([compiler, "--project", folder / "tsconfig.json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit("The examples do not compile:\n" + done.stdout)


def actions(path):
    """Titles and outcomes of the operations in a trace. How a program finds the page that has opened is its own affair."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        events = [json.loads(line) for line in archive.read("trace.trace").splitlines()]
    ends = {event["callId"]: event for event in events if event["type"] == "after"}
    return [
        [event["title"], ends[event["callId"]]["result"]["outcome"]]
        for event in events
        if event["type"] == "before" and event["method"] != "list_pages"
    ]


def result(output, work):
    """The JSON that a program of this folder prints last, and its trace: both are the same in all languages."""
    trace = work / "trace.zip"
    last = json.loads(output.strip().splitlines()[-1])
    return json.dumps([last, actions(trace) if trace.exists() else None], ensure_ascii=False, sort_keys=True)


def differences(results):
    """Names of programs whose results are not the same in all languages, with the results."""
    for stem in sorted({pathlib.Path(name).stem for name in results}):
        found = {text for name, text in results.items() if pathlib.Path(name).stem == stem}
        if len(found) > 1:
            yield stem, sorted(found)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", nargs="*", default=[])
    arguments.add_argument("--walks", action="store_true")
    arguments.add_argument("--examples", choices=["ts", "python"])
    chosen = arguments.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kitfleet-clients."))
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    programs = []
    available = [*([] if chosen.walks else examples()), *([] if chosen.examples else walks())]
    for index, (name, language, text) in enumerate(available):
        if chosen.examples not in (None, language) or chosen.only and not any(part in name for part in chosen.only):
            continue
        path = folder / f"program{index}{'.mts' if language == 'ts' else SUFFIXES[language]}"
        path.write_text(text)
        programs.append((name, language, path))
    if not programs:
        sys.exit("no program has such a name")
    if any(language == "ts" for _, language, _ in programs):
        compile_typescript(folder, [str(path) for _, language, path in programs if language == "ts"])
    started = None
    if "KITFLEET_URL" not in os.environ:
        started = Service(folder)
        os.environ.update(KITFLEET_URL=started.url, KITFLEET_API_KEY=started.key)
    failed, results = [], {}
    try:
        environment = {**os.environ, "SITE": f"http://127.0.0.1:{site.server_port}/", "PYTHONPATH": str(ROOT / "clients/python/src")}
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            waiting = {}
            for name, language, path in programs:
                work = folder / f"work-{path.stem}"
                work.mkdir()
                built = folder / "built" / f"{path.stem}.mjs" if language == "ts" else path
                waiting[pool.submit(run, name, language, built, work, environment)] = work
            for future in concurrent.futures.as_completed(waiting):
                name, code, output, errors, seconds = future.result()
                print(f"{'ok    ' if code == 0 else 'FAILED'} {name} ({seconds:.1f} s)", flush=True)
                if code:
                    failed.append(name)
                    print(output + errors)
                elif (HERE / name).exists():
                    results[name] = result(output, waiting[future])
    finally:
        if started:
            started.stop()
        site.shutdown()
    for stem, found in differences(results):
        failed.append(stem)
        print(f"FAILED the results of {stem} differ:", *found, sep="\n")
    if failed and started:
        print(f"The log of the service: {started.log}")
    else:
        shutil.rmtree(folder)
    print(f"{len(programs)} programs, {len(failed)} failed")
    sys.exit(1 if failed else 0)


def walks():
    languages = {suffix: language for language, suffix in SUFFIXES.items()}
    for path in sorted(HERE.iterdir()):
        if path.suffix in languages and path.name != "run.py":
            yield path.name, languages[path.suffix], path.read_text()


if __name__ == "__main__":
    main()
