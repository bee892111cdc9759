#!/usr/bin/env python3
"""Runs the walks and the examples of the documentation against a service that it starts.

    tests/clients/run.py [--only NAME …]

`KITFLEET_BIN` is the program (target/debug/kitfleet by default). `PYTHON` is an interpreter that has the package kitfleet. The
TypeScript package must be built.
"""

import argparse
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BINARY = os.environ.get("KITFLEET_BIN", str(ROOT / "target/debug/kitfleet"))
PYTHON = os.environ.get("PYTHON", sys.executable)
PROGRAM_TIME = 120

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


class Site(http.server.BaseHTTPRequestHandler):
    pages = {"/": SHOP, "/sign-in": SIGN_IN}

    def do_GET(self):
        page = self.pages.get(urllib.parse.urlsplit(self.path).path)
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
    paths = json.loads((ROOT / "openapi.json").read_text())["paths"]
    pages = sorted((ROOT / "docs/clients").glob("*.md")) + [ROOT / "clients/typescript/README.md", ROOT / "clients/python/README.md"]
    for page in pages:
        text = page.read_text()
        for count, found in enumerate(re.finditer(r"(?ms)^(?:<!-- needs: (\S+) -->\n)?```(ts|python)\n(.*?)^```$", text)):
            needs, language, program = found.groups()
            name = f"{page.relative_to(ROOT)}:{text[: found.start(2)].count(chr(10)) + 1}"
            if needs and needs not in paths:
                print(f"skipped {name}: the contract has no {needs}")
                continue
            yield name, language, program


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


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", nargs="*", default=[])
    only = arguments.parse_args().only
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kitfleet-clients."))
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    programs = []
    for index, (name, language, text) in enumerate([*examples(), *walks()]):
        if only and not any(part in name for part in only):
            continue
        path = folder / f"program{index}.{ {'ts': 'mts', 'python': 'py', 'sh': 'sh'}[language] }"
        path.write_text(text)
        programs.append((name, language, path))
    compile_typescript(folder, [str(path) for _, language, path in programs if language == "ts"])
    service = Service(folder)
    failed, outputs = 0, {}
    try:
        environment = {**os.environ, "KITFLEET_URL": service.url, "KITFLEET_API_KEY": service.key, "SITE": f"http://127.0.0.1:{site.server_port}/"}
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            waiting = []
            for name, language, path in programs:
                work = folder / f"work-{path.stem}"
                work.mkdir()
                built = folder / "built" / f"{path.stem}.mjs" if language == "ts" else path
                waiting.append(pool.submit(run, name, language, built, work, environment))
            for future in concurrent.futures.as_completed(waiting):
                name, code, output, errors, seconds = future.result()
                outputs[name] = output
                print(f"{'ok    ' if code == 0 else 'FAILED'} {name} ({seconds:.1f} s)")
                if code:
                    failed += 1
                    print(output + errors)
    finally:
        service.stop()
        site.shutdown()
    # The same walk has the same result in all languages.
    results = {output.strip().splitlines()[-1] for name, output in outputs.items() if name.startswith("walk") and output.strip()}
    if len(results) > 1:
        failed += 1
        print("FAILED the walks differ:", *sorted(results), sep="\n")
    if failed:
        print(f"The log of the service: {service.log}")
    else:
        shutil.rmtree(folder)
    print(f"{len(outputs) - min(failed, len(outputs))} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def walks():
    for path in sorted(HERE.glob("walk.*")):
        yield path.name, {".ts": "ts", ".py": "python", ".sh": "sh"}[path.suffix], path.read_text()


if __name__ == "__main__":
    main()
