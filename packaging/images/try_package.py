"""Tries the Debian package on a system with systemd and PostgreSQL, in a podman container (README.md beside this file lists the checks).

    try_package.py --image IMAGE --package FILE [--volume HOST:CONTAINER:ro]…
"""

import argparse
import base64
import json
import re
import secrets
import sys
import time

from checks import check, failures, run, until

ADDRESS = "127.0.0.1:8080"
UNITS = ["kitfleet-api", "kitfleet-worker"]
NAME = "kitfleet-package"
PACKAGE = "/srv/kitfleet.deb"
# `operate` of docs/deploying.md.
OPERATE = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--uid=kitfleet", "--working-directory=/var/lib/kitfleet",
           "--property=EnvironmentFile=/etc/kitfleet/environment", "--setenv=KITFLEET_DATA_DIR=/var/lib/kitfleet",
           "kitfleet", "--config", "/etc/kitfleet/kitfleet.toml"]  # fmt: skip


def inside(*command, **options):
    return run("podman", "exec", NAME, *command, **options)


def apt(*arguments):
    inside("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-q", "--no-install-recommends", *arguments)


def call(method, path, key=None, body=None):
    """The status and the JSON of an answer. The package listens on the container's own 127.0.0.1."""
    options = ["--max-time", "60", "--request", method, "--write-out", "\n%{http_code}"]
    if key:
        options += ["--header", f"Authorization: Bearer {key}"]
    if body is not None:
        options += ["--header", "Content-Type: application/json", "--data", json.dumps(body)]
    text, _, status = inside("curl", "-sS", *options, f"http://{ADDRESS}{path}").stdout.rpartition("\n")
    return int(status), json.loads(text) if text else None


def unit(name, property):
    return inside("systemctl", "show", "--property", property, "--value", name, ok=False).stdout.strip()


def are_up():
    active = all(unit(name, "ActiveState") == "active" for name in UNITS)
    return active and call("GET", "/readyz")[0] == 200


def start_system(options):
    volumes = [part for volume in options.volume for part in ("--volume", volume)]
    run("podman", "run", "-d", "--name", NAME, "--systemd=always", "--privileged", *volumes,
        "--volume", f"{options.package}:{PACKAGE}:ro", options.image)  # fmt: skip
    until("systemd is up", lambda: inside("systemctl", "is-system-running", ok=False).stdout.strip() in ("running", "degraded"))


def install():
    inside("apt-get", "update", "-q")
    apt("install", PACKAGE)
    check("the package installs with its dependencies alone", inside("kitfleet", "--version").stdout.startswith("kitfleet"))
    for name in UNITS:
        check(f"{name} does not start before it is configured", unit(name, "ActiveState") == "inactive")
    inside("su", "postgres", "-c", "createuser kitfleet && createdb --owner kitfleet kitfleet")
    inside("su", "postgres", "-c", "psql kitfleet -c 'create extension pgcrypto' -c 'create extension hstore'")
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    inside("sh", "-c", f"echo MFA_ENCRYPTION_KEY={key} >>/etc/kitfleet/environment")
    inside("systemctl", "enable", "--now", *UNITS)
    until("the units are up", are_up)
    check("the units start", True)


def make_key():
    words = inside(*OPERATE, "account", "create", "--email", "a@example.com", "--name", "A", "--tier", "enterprise", "--verified").stdout
    account = re.search(r"acc_[0-9a-f-]+", words)[0]
    minted = inside(*OPERATE, "key", "mint", account, "--name", "k", "--scopes", "account_owner").stdout
    return re.search(r"svc_\S+", minted)[0]


def session(key):
    """A session that works, seen by its screenshot."""
    status, made = call("POST", "/v1/sessions", key, {"wait_timeout_ms": 20000})
    assert status == 201, made
    path = f"/v1/sessions/{made['id']}"
    call("POST", f"{path}/navigate", key, {"url": "http://welcome.kitfleet.internal/"})
    status, _ = call("POST", f"{path}/capture", key, {"kind": "screenshot"})
    return status == 200, path


def outage():
    """PostgreSQL is away for 40 s, and both processes are killed twice meanwhile."""
    inside("systemctl", "stop", "postgresql@*", "postgresql")
    end = time.monotonic() + 40
    for _ in range(2):
        for name in UNITS:
            inside("systemctl", "kill", "--kill-who=main", "--signal=KILL", name, ok=False)
        time.sleep(5)
    # An outage of this length is the situation that is tried.
    time.sleep(max(0.0, end - time.monotonic()))
    inside("systemctl", "start", "postgresql")
    until("the units are back", are_up, 60)
    restarts = ", ".join(f"{name} {unit(name, 'NRestarts')}" for name in UNITS)
    check("units come back after 40 s without PostgreSQL and two kills", True, f"restarts: {restarts}")


def boot_without_database():
    inside("systemctl", "stop", *UNITS, "postgresql@*", "postgresql", timeout=120)
    inside("systemctl", "start", "--no-block", *UNITS)
    until("a unit has been started again", lambda: int(unit(UNITS[0], "NRestarts")) > 0)
    inside("systemctl", "start", "postgresql")
    until("the units are up", are_up, 60)
    check("units started without PostgreSQL come up when it does", True)


def install_again():
    before = [unit(name, "MainPID") for name in UNITS]
    apt("install", "--reinstall", PACKAGE)
    check("an upgrade does not restart the units", [unit(name, "MainPID") for name in UNITS] == before)
    inside("systemctl", "restart", *UNITS, timeout=120)
    until("the units are up", are_up)


def remove(key):
    works, _ = session(key)
    check("a session works after all that", works)
    started = time.monotonic()
    apt("remove", "kitfleet")
    check("removal with a live session ends within 30 s", time.monotonic() - started < 30, f"{time.monotonic() - started:.1f} s")
    left = inside("sh", "-c", "pgrep -a kitfleet; pgrep -a WebKit; ls /etc/systemd/system/multi-user.target.wants | grep kitfleet", ok=False).stdout
    check("removal leaves no process and no enabled unit", not left.strip(), left.strip())
    apt("purge", "kitfleet")
    kept = inside("sh", "-c", "ls -d /etc/kitfleet /var/lib/kitfleet", ok=False).stdout.split()
    check("a purge removes the configuration and keeps the data", kept == ["/var/lib/kitfleet"], str(kept))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", required=True)
    parser.add_argument("--package", required=True)
    parser.add_argument("--volume", action="append", default=[])
    options = parser.parse_args()
    try:
        start_system(options)
        install()
        key = make_key()
        works, path = session(key)
        check("a worker of the package confines its browser and takes a screenshot", works)
        call("DELETE", path, key)
        outage()
        boot_without_database()
        install_again()
        remove(key)
    except Exception:
        print(inside("journalctl", "-n", "60", "--no-pager", ok=False).stdout, file=sys.stderr)
        raise
    finally:
        run("podman", "rm", "-f", "-v", NAME, ok=False)
    print(f"package: {len(failures)} checks failed")
    sys.exit(1 if failures else 0)


main()
