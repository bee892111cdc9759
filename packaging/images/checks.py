"""What the trials of images and packages share: checks, commands, waiting and requests."""

import contextlib
import errno
import http.client
import json
import shlex
import subprocess
import time

failures = []


def check(name, holds, detail=""):
    print(f"{'ok  ' if holds else 'FAIL'}  {name}{f' ({detail})' if detail else ''}", flush=True)
    if not holds:
        failures.append(name)


def run(*command, timeout=600, env=None, cwd=None, ok=True):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, cwd=cwd)
    if ok and done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def until(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, RuntimeError):
            if found := condition():
                return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in {seconds} s: {what}")
        time.sleep(0.1)


def call(address, method, path, key=None, body=None, timeout=60):
    """The status and the JSON of an answer."""
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        try:
            connection.connect()
        except TimeoutError as error:
            # podman drops what is sent to a container that was just removed.
            raise ConnectionRefusedError(errno.ECONNREFUSED, "no answer to the connection") from error
        connection.sock.settimeout(timeout)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        connection.close()
