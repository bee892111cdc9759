"""Tries the images and compose.yaml with one container engine (README.md beside this file lists the checks).

    try.py --engine podman|docker --compose "PROGRAM ARGUMENT…" --most-mib N
"""

import argparse
import asyncio
import base64
import errno
import http.client
import http.server
import json
import os
import pathlib
import re
import secrets
import shlex
import struct
import subprocess
import sys
import threading
import time
import zlib

import websockets
from checks import call, check, failures, run, until

FOLDER = pathlib.Path(__file__).resolve().parents[1]
SECCOMP = FOLDER / "seccomp.json"
APIS = ["127.0.0.1:8080", "127.0.0.1:8081"]
LOCKED_DOWN = ["--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp"]
# A character of each script, and one that no font has.
SCRIPTS = {"Chinese": "漢", "Japanese": "あ", "Korean": "한", "Hindi": "अ", "Thai": "ก", "Arabic": "ع", "emoji": "😀", "heart": "❤️"}
NO_GLYPH = "\U000E0FFF"

def pixels(png):
    """Width, height and rows of an 8-bit PNG without interlacing, as bytes of RGB or RGBA."""
    position, data, width, height, channels = 8, b"", 0, 0, 0
    while position < len(png):
        length, kind = struct.unpack(">I4s", png[position : position + 8])
        chunk = png[position + 8 : position + 8 + length]
        if kind == b"IHDR":
            width, height, _, color = struct.unpack(">IIBB", chunk[:10])
            channels = {2: 3, 6: 4}[color]
        elif kind == b"IDAT":
            data += chunk
        position += 12 + length
    raw, stride, rows, before = zlib.decompress(data), width * channels, [], bytes(width * channels)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for x in range(stride):
            left = line[x - channels] if x >= channels else 0
            up, corner = before[x], before[x - channels] if x >= channels else 0
            if kind == 1:
                line[x] = (line[x] + left) & 255
            elif kind == 2:
                line[x] = (line[x] + up) & 255
            elif kind == 3:
                line[x] = (line[x] + (left + up) // 2) & 255
            elif kind == 4:
                estimate = left + up - corner
                nearest = min((left, up, corner), key=lambda value: abs(estimate - value))
                line[x] = (line[x] + nearest) & 255
        rows.append(bytes(line))
        before = rows[-1]
    return width, height, channels, rows


class Site:
    """A page with one large character, for browsers that share this machine's network."""

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                code = self.path.strip("/")
                text = "".join(chr(int(part, 16)) for part in code.split("-")) if code else ""
                page = f"<!DOCTYPE html><meta charset=utf-8><title>t</title><body style='margin:0;background:#fff'>"
                page += f"<p id=p style='margin:0;font:48px/64px sans-serif;width:80px;height:64px'>{text}</p>"
                body = page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, text):
        return f"http://127.0.0.1:{self.server.server_port}/" + "-".join(f"{ord(c):x}" for c in text)


class Engine:
    def __init__(self, name):
        self.name = name
        self.confined = ["--security-opt", f"seccomp={SECCOMP}", "--security-opt", "systempaths=unconfined", "--shm-size", "1g"]
        if self.name == "docker" and os.path.exists("/sys/module/apparmor"):
            self.confined += ["--security-opt", "apparmor=unconfined"]

    def __call__(self, *arguments, **options):
        return run(self.name, *arguments, **options)

    def inspect(self, name, form):
        return self("inspect", "--format", form, name).stdout.strip()


def try_image(engine, most_mib):
    for tag in ("slim", "full"):
        image = f"kitfleet:{tag}"
        size = int(engine("image", "inspect", "--format", "{{.Size}}", image).stdout) / 2**20
        check(f"{image} has at most {most_mib} MiB", size <= most_mib, f"{size:.0f} MiB")
        check(f"{image} runs as 7400", engine("run", "--rm", "--entrypoint", "id", image, "-u").stdout.strip() == "7400")
        check(f"{image} has a health check", "healthz" in engine("image", "inspect", image).stdout)
        has = engine("run", "--rm", "--entrypoint", "sh", image, "-c", "ls -d /usr/lib/postgresql 2>/dev/null || true").stdout
        check(f"{image} {'has' if tag == 'full' else 'lacks'} PostgreSQL", bool(has.strip()) == (tag == "full"))
        found = engine("run", "--rm", "--user", "0", "--entrypoint", "sh", image, "-c", "find / -xdev -name .env -o -name src -path /src").stdout
        check(f"{image} has neither sources nor secrets", not found.strip(), found.strip())
        doctor = engine("run", "--rm", *LOCKED_DOWN, *engine.confined, image, "doctor", ok=False).stdout
        check(f"{image} confines browsers, locked down", re.search(r"^ok +sandbox", doctor, re.M), doctor.split("sandbox")[-1][:80].strip())
        masked = engine("run", "--rm", "--security-opt", f"seccomp={SECCOMP}", image, "doctor", ok=False).stdout
        sandbox = re.search(r"sandbox.*\n.*", masked)
        check(f"{image} names /proc where it is masked", sandbox and "/proc" in sandbox[0], sandbox and sandbox[0])
        service = ["-e", "KITFLEET_SERVICE_HOST=10.0.0.1", "-e", "KITFLEET_PORT=tcp://10.0.0.1:80", "-e", "KITFLEET_PORT_80_TCP_PROTO=tcp"]
        check(f"{image} starts beside a Kubernetes service of its name", engine("run", "--rm", *service, image, "config", ok=False).returncode == 0)


def try_up(engine):
    """`kitfleet up` in a container: confined, its log without secrets, its fonts, and its stop."""
    site = Site()
    port = 18080
    settings = {
        "KITFLEET_SERVER__LISTEN": f"127.0.0.1:{port}",
        "KITFLEET_WORKER__SANDBOX": "required",
        "KITFLEET_SESSIONS__ALLOW_PRIVATE_TARGETS": "true",
    }
    variables = [part for name, value in settings.items() for part in ("-e", f"{name}={value}")]
    engine("run", "-d", "--name", "kitfleet-up", "--network", "host", *LOCKED_DOWN, *engine.confined, *variables, "kitfleet:full")
    try:
        address = f"127.0.0.1:{port}"
        until("kitfleet up is ready", lambda: call(address, "GET", "/readyz")[0] == 200)
        check("a worker that requires confinement starts", True)
        key = engine("exec", "kitfleet-up", "cat", "owner-key").stdout.strip()
        call(address, "POST", "/v1/auth/login-links", body={"email": "owner@localhost"})
        session = call(address, "POST", "/v1/sessions", key, {})[1]["id"]

        def picture(text):
            call(address, "POST", f"/v1/sessions/{session}/navigate", key, {"url": site.url(text)})
            status, answer = call(address, "POST", f"/v1/sessions/{session}/capture", key, {"kind": "screenshot"})
            assert status == 200, answer
            _, _, channels, rows = pixels(base64.b64decode(answer["content"]))
            return channels, [row[: 240 * channels] for row in rows[:192]]

        _, box = picture(NO_GLYPH)
        _, blank = picture(" ")
        seen = {}
        for name, text in SCRIPTS.items():
            channels, shown = picture(text)
            seen[name] = b"".join(shown)
            check(f"a page shows {name}", shown not in (box, blank))
            if name in ("emoji", "heart"):
                colored = any(max(row[x : x + 3]) - min(row[x : x + 3]) > 60 for row in shown for x in range(0, len(row), channels))
                check(f"the {name} has colour", colored)
        check("the scripts have glyphs of their own", len(set(seen.values())) == len(SCRIPTS))
        started = time.monotonic()
        engine("stop", "kitfleet-up")
        seconds = time.monotonic() - started
        code = engine.inspect("kitfleet-up", "{{.State.ExitCode}}")
        check("a stop with a live session ends well within ten seconds", code == "0" and seconds < 10, f"exit code {code}, {seconds:.1f} s")
        done = engine("logs", "kitfleet-up")
        log = done.stdout + done.stderr
        check("the log has neither the key nor a link to sign in", key not in log and "svc_" not in log and "token=" not in log)
    finally:
        engine("rm", "-f", "-v", "kitfleet-up", ok=False)


class Fleet:
    """compose.yaml under way."""

    def __init__(self, engine, compose):
        self.engine = engine
        self.compose_program = shlex.split(compose)
        self.environment = dict(os.environ, IMAGE="kitfleet:slim", DRAIN_TIMEOUT="20s", STOP_GRACE_PERIOD="40s")
        self.environment |= {
            "POSTGRES_PASSWORD": secrets.token_hex(24),
            "METRICS_SCRAPE_TOKEN": secrets.token_hex(24),
            "MFA_ENCRYPTION_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
        }
        self.key = None

    def compose(self, *arguments, timeout=300, ok=True):
        # podman-compose looks for seccomp.json in the working directory.
        return run(*self.compose_program, *arguments, env=self.environment, cwd=FOLDER, timeout=timeout, ok=ok)

    def containers(self, service, all_states=False):
        """Names of a service's containers, the oldest first."""
        labels = ["--filter", f"label=com.docker.compose.service={service}", "--filter", "label=com.docker.compose.project=kitfleet"]
        listed = self.engine("ps", *(["-a"] if all_states else []), *labels, "--format", "{{.CreatedAt}}\t{{.Names}}").stdout
        return [line.split("\t")[1] for line in sorted(listed.splitlines())]

    def apis(self):
        return self.containers("api") + self.containers("api-2")

    def operate(self, *arguments):
        return self.engine("exec", self.containers("api")[0], "kitfleet", *arguments).stdout

    def workers(self):
        return json.loads(self.operate("workers", "list", "--json"))

    def ready(self, apis=2, workers=2, seconds=90):
        until("APIs are ready", lambda: all(call(a, "GET", "/readyz")[0] == 200 for a in APIS[:apis]), seconds)
        until(f"{workers} workers are active", lambda: sum(w["status"] == "active" for w in self.workers()) >= workers, seconds)

    def make_key(self):
        words = self.operate("account", "create", "--email", "a@example.com", "--name", "A", "--tier", "enterprise", "--verified")
        account = re.search(r"acc_[0-9a-f-]+", words)[0]
        self.key = re.search(r"svc_\S+", self.operate("key", "mint", account, "--name", "k", "--scopes", "account_owner"))[0]

    def call(self, method, path, body=None, api=0, **options):
        return call(APIS[api], method, path, self.key, body, **options)

    def session_on_each_worker(self):
        """A session by worker: creates until each worker has one."""
        found, made = {}, []
        while len(found) < len(self.workers()):
            status, session = self.call("POST", "/v1/sessions", {})
            assert status == 201, session
            made.append(session["id"])
            where = self.psql(f"select worker_id from sessions where id = '{session['id'].removeprefix('ses_')}'")
            found.setdefault(where, session["id"])
            assert len(made) < 12, "all sessions are on one worker"
        for session in made:
            if session not in found.values():
                self.call("DELETE", f"/v1/sessions/{session}")
        return list(found.values())

    def psql(self, statement):
        postgres = self.containers("postgres")[0]
        return self.engine("exec", postgres, "psql", "-U", "kitfleet", "-Atc", statement).stdout.strip()


class Load:
    """Clients that have a session each and use it through whichever API answers. A session whose worker was killed is replaced."""

    def __init__(self, fleet, clients=4):
        self.fleet, self.done, self.failed, self.errored = fleet, 0, [], 0
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(clients)]
        for thread in self.threads:
            thread.start()

    def ask(self, method, path, body, number):
        for turn in range(200):
            try:
                return self.fleet.call(method, path, body, api=(number + turn) % 2)
            except OSError as error:
                # This API process is being replaced; a load balancer would take the other one. Docker accepts a connection before it knows
                # that nothing listens in the container, and resets it then. A process that stops closes connections without a request.
                is_away = error.errno in (errno.ECONNREFUSED, errno.EHOSTUNREACH)
                is_closed = error.errno == errno.ECONNRESET or isinstance(error, http.client.RemoteDisconnected)
                if not (is_away or is_closed and (method != "POST" or self.is_away(number + turn))):
                    raise
                time.sleep(0.05)
        raise TimeoutError("no API answers")

    @staticmethod
    def is_away(number):
        try:
            return call(APIS[number % 2], "GET", "/healthz")[0] != 200
        except OSError:
            return True

    def work(self, number):
        session = None
        while not self.stopping.is_set():
            try:
                if session is None:
                    status, answer = self.ask("POST", "/v1/sessions", {"wait_timeout_ms": 20000}, number)
                    if status != 201:
                        self.failed.append(("create", status, answer))
                        continue
                    session, operations = answer["id"], 0
                status, answer = self.ask("GET", f"/v1/sessions/{session}/state", None, number)
                if status == 200:
                    self.done += 1
                    operations += 1
                    if operations % 40 == 0:
                        self.ask("DELETE", f"/v1/sessions/{session}", None, number)
                        session = None
                elif status in (409, 404, 410, 502):
                    ended = self.ask("GET", f"/v1/sessions/{session}", None, number)[1]
                    self.errored += ended.get("status") == "errored"
                    self.failed.append(("operation", status, answer, ended.get("status")))
                    session = None
                else:
                    self.failed.append(("operation", status, answer))
            except Exception as error:
                self.failed.append(("connection", repr(error)))
                session = None

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return self


async def first_picture(address, key, session):
    """The seconds until a live view shows a picture."""
    status, ticket = call(address, "POST", f"/v1/sessions/{session}/live-tickets", key, {})
    assert status in (200, 201), ticket
    started = time.monotonic()
    protocols = ["kitfleet.live.v1", "ticket." + ticket["ticket"]]
    async with websockets.connect(f"ws://{address}/v1/sessions/{session}/live", subprotocols=protocols, max_size=None) as socket:
        while True:
            if isinstance(await asyncio.wait_for(socket.recv(), 10), bytes):
                return time.monotonic() - started


def try_compose(engine, compose):
    fleet = Fleet(engine, compose)
    try:
        # An interrupted trial leaves containers and volumes, whose database has another password.
        fleet.compose("down", "-v", "-t", "5", ok=False)
        started = time.monotonic()
        fleet.compose("up", "-d", "--no-build")
        fleet.ready(workers=1)
        fleet.make_key()
        status, session = fleet.call("POST", "/v1/sessions", {"wait_timeout_ms": 20000})
        assert status == 201, session
        path = f"/v1/sessions/{session['id']}"
        fleet.call("POST", f"{path}/navigate", {"url": "http://welcome.kitfleet.internal/"})
        status, _ = fleet.call("POST", f"{path}/capture", {"kind": "screenshot"})
        seconds = time.monotonic() - started
        check("from compose up to the first screenshot at most 20 s", status == 200 and seconds <= 20, f"{seconds:.1f} s")
        fleet.call("DELETE", path)
        fleet.ready()
        check("two APIs and two workers", len(fleet.workers()) == 2)
        live(fleet)
        kill_a_worker(fleet)
        outages(fleet)
        scale(fleet)
        upgrade(fleet, "kitfleet:next", "an upgrade")
        upgrade(fleet, "kitfleet:slim", "a rollback")
        stop(fleet)
    except Exception:
        print(fleet.compose("ps", ok=False).stdout, file=sys.stderr)
        for service in ("api", "api-2", "worker"):
            for name in fleet.containers(service, all_states=True):
                done = engine("logs", "--tail", "15", name, ok=False)
                print(f"--- {name}\n{done.stdout}{done.stderr}", file=sys.stderr)
        raise
    finally:
        fleet.compose("down", "-v", "-t", "5", ok=False)


def live(fleet):
    for session in fleet.session_on_each_worker():
        fleet.call("POST", f"/v1/sessions/{session}/navigate", {"url": "http://welcome.kitfleet.internal/"})
        for address in APIS:
            seconds = asyncio.run(first_picture(address, fleet.key, session))
            check(f"a live view through {address} to a worker", seconds < 5, f"{seconds:.2f} s")
        fleet.call("DELETE", f"/v1/sessions/{session}")


def kill_a_worker(fleet):
    sessions = fleet.session_on_each_worker()
    fleet.engine("kill", "-s", "KILL", fleet.containers("worker")[0])

    def ended():
        # The next operation on a session of a dead worker ends it.
        for session in sessions:
            fleet.call("GET", f"/v1/sessions/{session}/state")
        return [session for session in sessions if fleet.call("GET", f"/v1/sessions/{session}")[1]["status"] == "errored"]

    check("a killed worker ends its own sessions only", len(until("one session errors", ended, 45)) == 1)
    fleet.compose("up", "-d", "--no-build", "--no-recreate")
    fleet.ready()
    for session in sessions:
        fleet.call("DELETE", f"/v1/sessions/{session}")
    check("another worker takes its place", True)


def outages(fleet):
    session = fleet.call("POST", "/v1/sessions", {"wait_timeout_ms": 20000})[1]["id"]
    path = f"/v1/sessions/{session}"
    postgres = fleet.containers("postgres")[0]
    fleet.engine("stop", "-t", "20", postgres)
    status, _ = until("a clean answer", lambda: fleet.call("GET", path))
    check("without PostgreSQL an answer is 503", status == 503, str(status))
    fleet.engine("start", postgres)
    fleet.ready()
    status, answer = until("the session is there", lambda: (r := fleet.call("GET", f"{path}/state"))[0] in (200, 409) and r)
    check("a session outlives a restart of PostgreSQL", status == 200, str(answer)[:100])
    redis = fleet.containers("redis")[0]
    fleet.engine("pause", redis)
    statuses = {fleet.call("GET", f"{path}/state", api=number % 2)[0] for number in range(8)}
    fleet.engine("unpause", redis)
    check("operations go on while Redis is paused", statuses == {200}, str(statuses))
    fleet.call("DELETE", path)


def scale(fleet):
    more = ("up", "-d", "--no-build", "--no-recreate", "--scale", "worker=4", "worker")
    # Redis, which was paused, has to become healthy first.
    until("compose adds workers", lambda: fleet.compose(*more, ok=False).returncode == 0)
    fleet.ready(workers=4)
    check("compose adds workers", True)
    load = Load(fleet)
    until("the load is under way", lambda: load.done > 50)
    for name in fleet.containers("worker")[2:]:
        fleet.engine("stop", "-t", "40", name)
        check(f"a worker that is taken away drains: exit code 0", fleet.engine.inspect(name, "{{.State.ExitCode}}") == "0")
        fleet.engine("rm", "-v", name)
    load.end()
    check("taking workers away fails nothing", not load.failed and load.done > 50, f"{load.done} operations, {load.failed[:2]}")


def upgrade(fleet, image, name):
    """The commands of docs/deploying.md, under load."""
    load = Load(fleet)
    until("the load is under way", lambda: load.done > 50)
    fleet.environment["IMAGE"] = image
    if image.endswith("next"):
        # What `kitfleet migrate` of a newer version would do.
        fleet.psql("alter table sessions add column of_next_version text")
        fleet.psql("insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (99990101000000, 'next', true, '', 0)")
    old = fleet.containers("worker")
    fleet.compose("up", "-d", "--no-build", "--no-deps", "--no-recreate", "--scale", "worker=4", "worker")
    fleet.ready(workers=4)
    for container in old:
        fleet.engine("stop", "-t", "40", container)
        check(f"{name}: an old worker drains", fleet.engine.inspect(container, "{{.State.ExitCode}}") == "0")
        fleet.engine("rm", "-v", container)
    for service in ("api", "api-2"):
        fleet.compose("up", "-d", "--no-build", "--no-deps", service)
        until("two APIs are ready", lambda: all(call(a, "GET", "/readyz")[0] == 200 for a in APIS))
    before = load.done
    until("the load goes on", lambda: load.done > before + 50)
    load.end()
    images = {fleet.engine.inspect(c, "{{.Config.Image}}") for c in fleet.containers("worker") + fleet.apis()}
    check(f"{name}: all containers are of the other image", all(image in i for i in images), str(images))
    check(f"{name} fails no operation and errors no session", not load.failed and not load.errored, f"{load.done} operations, {load.failed[:2]}")


def stop(fleet):
    session = fleet.call("POST", "/v1/sessions", {})[1]["id"]
    started = time.monotonic()
    names = fleet.containers("worker") + fleet.apis()
    fleet.compose("stop", timeout=120)
    codes = {name: fleet.engine.inspect(name, "{{.State.ExitCode}}") for name in names}
    seconds = time.monotonic() - started
    check(f"compose stop drains {session}, and all end with exit code 0 in time", set(codes.values()) == {"0"}, f"{seconds:.0f} s, {codes}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", required=True, choices=["podman", "docker"])
    parser.add_argument("--compose", required=True)
    parser.add_argument("--most-mib", type=int, required=True)
    options = parser.parse_args()
    engine = Engine(options.engine)
    try_image(engine, options.most_mib)
    try_up(engine)
    try_compose(engine, options.compose)
    print(f"{options.engine}: {len(failures)} checks failed")
    sys.exit(1 if failures else 0)


main()
