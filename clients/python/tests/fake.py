"""A service that answers as a test tells it to, also wrongly."""

import http.server
import json
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional


class Received(NamedTuple):
    method: str
    path: str
    headers: Dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Fake:
    """Answers are functions that get the handler, in the order of the requests; the last one repeats."""

    def __init__(self, *answers: Callable[[http.server.BaseHTTPRequestHandler], None]) -> None:
        self.answers = list(answers)
        self.received: List[Received] = []
        self.closed = threading.Event()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, BrokenPipeError):
                    self.close_connection = True
                    fake.closed.set()

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.headers.get("transfer-encoding") == "chunked":
                    while True:
                        size = int(self.rfile.readline(), 16)
                        body += self.rfile.read(size)
                        self.rfile.readline()
                        if size == 0:
                            break
                headers = {name.lower(): value for name, value in self.headers.items()}
                fake.received.append(Received(self.command, self.path, headers, body))
                answer = fake.answers[0] if len(fake.answers) == 1 else fake.answers.pop(0)
                answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *args: Any) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                fake.closed.set()

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> "Fake":
        return self

    def __exit__(self, *_: Any) -> None:
        self.server.shutdown()
        self.server.server_close()


def answer(status: int = 200, body: Any = None, headers: Optional[Dict[str, str]] = None, kind: str = "application/json") -> Callable[[Any], None]:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

    def send(handler: Any) -> None:
        handler.send_response(status)
        if status != 204:
            handler.send_header("Content-Type", kind)
            handler.send_header("Content-Length", str(len(raw)))
        handler.send_header("X-Request-Id", "req-1")
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.end_headers()
        if status != 204:
            handler.wfile.write(raw)

    return send


def problem(status: int, code: str, headers: Optional[Dict[str, str]] = None, **members: Any) -> Callable[[Any], None]:
    body = {"type": f"http://x/errors/{code}", "title": code.title(), "status": status, "detail": "Grüezi", "instance": "/", "request_id": "req-9", **members}
    return answer(status, body, headers, "application/problem+json")


def cut(length: int = 1000, sent: bytes = b'{"data": [') -> Callable[[Any], None]:
    """Ends the connection in the middle of the body."""

    def send(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(sent)
        handler.wfile.flush()
        handler.close_connection = True

    return send


def hang_up(handler: Any) -> None:
    """Ends the connection without an answer."""
    handler.close_connection = True


def events(*parts: bytes, hold: Optional[threading.Event] = None) -> Callable[[Any], None]:
    def send(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        for part in parts:
            handler.wfile.write(part)
            handler.wfile.flush()
        if hold is not None:
            hold.wait(10)
        handler.close_connection = True

    return send


SESSION = {"id": "ses_1", "status": "ready", "label": "Zürich", "dialog": None, "created_at": "2026-11-20T18:05:00.123Z"}
