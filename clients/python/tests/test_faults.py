"""What the clients do when the service, or the network, does not answer as it should."""

import asyncio
import concurrent.futures
import datetime
import inspect
import itertools
import pickle
import socket
import threading
import time
import unittest
from email.utils import format_datetime
from typing import Any, Callable, List, Tuple

from fake import SESSION, Fake, answer, cut, events, hang_up, problem

from kitfleet import AsyncKitfleet, Kitfleet, errors

LIST = {"data": [SESSION], "has_more": False, "next_cursor": None}


async def resolved(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def outcome(kind: str, fake_url: str, call: Callable[[Any], Any], **settings: Any) -> Any:
    """The result of `call`, or the error it raised, with the client of this kind."""
    settings.setdefault("api_key", "key")
    try:
        if kind == "sync":
            with Kitfleet(url=fake_url, **settings) as client:
                return call(client)

        async def run() -> Any:
            async with AsyncKitfleet(url=fake_url, **settings) as client:
                return await resolved(call(client))

        return asyncio.run(run())
    except Exception as error:
        return error


class Faults(unittest.TestCase):
    def each(self, answers: List[Any], call: Callable[[Any], Any], **settings: Any) -> List[Tuple[Any, Fake]]:
        results = []
        for kind in ("sync", "async"):
            with Fake(*answers) as fake:
                results.append((outcome(kind, fake.url, call, **settings), fake))
        return results

    def test_server_away_is_a_connection_error(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            for kind in ("sync", "async"):
                error = outcome(kind, url, lambda client: client.sessions.get("ses_1"), max_retries=1)
                self.assertIsInstance(error, errors.ConnectionFailedError)
                self.assertIn(url, str(error))

    def test_answer_of_another_shape_is_an_unexpected_response(self) -> None:
        calls = [lambda client: client.sessions.create(), lambda client: client.sessions.get("ses_1"), lambda client: client.sessions.list()]
        for call, body in itertools.product(calls, [b"", b"null", b"[]", b'"text"']):
            for result, _ in self.each([answer(200, body)], call):
                self.assertIsInstance(result, errors.UnexpectedResponseError, body)
        for result, _ in self.each([answer(200, {"items": []})], lambda client: client.sessions.list()):
            self.assertIsInstance(result, errors.UnexpectedResponseError)

    def test_problem_of_another_service_is_a_problem_error(self) -> None:
        body = {"code": 5, "detail": None, "errors": [1, "a", None, {"field": None}]}
        for result, _ in self.each([answer(400, body)], lambda client: client.sessions.get("ses_1")):
            self.assertIsInstance(result, errors.ProblemError)
            self.assertEqual((result.status, result.errors), (400, []))

    def test_id_that_would_name_another_route_is_an_error_before_the_request(self) -> None:
        for id in ("", ".", ".."):
            for result, fake in self.each([answer(200, SESSION)], lambda client, id=id: client.profiles.delete(id)):
                self.assertIsInstance(result, ValueError)
                self.assertEqual(len(fake.received), 0)

    def test_url_without_a_valid_port_is_a_value_error(self) -> None:
        for url in ("http://127.0.0.1:99999", "http://127.0.0.1:x", "127.0.0.1:8080", "ftp://a.example"):
            with self.assertRaisesRegex(ValueError, "address of Kitfleet"):
                Kitfleet(url=url, api_key="key")
        with Fake(answer(200, SESSION)) as fake, Kitfleet(url=f" {fake.url}/\n", api_key="key") as client:
            self.assertEqual(client.sessions.get("ses_1").id, SESSION["id"])

    def test_slow_answer_is_a_deadline_error_and_is_not_repeated(self) -> None:
        held = threading.Event()
        for result, fake in self.each([lambda handler: held.wait(5)], lambda client: client.sessions.get("ses_1", options={"timeout": 0.3})):
            self.assertIsInstance(result, errors.DeadlineExceededError)
            self.assertEqual(len(fake.received), 1)
        held.set()

    def test_trickling_body_is_a_deadline_error(self) -> None:
        def trickle(handler: Any) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            for _ in range(40):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.1)

        for result, _ in self.each([trickle], lambda client: client.sessions.get("ses_1", options={"timeout": 0.5})):
            self.assertIsInstance(result, errors.DeadlineExceededError)

    def test_repeatable_request_is_repeated_after_a_lost_connection(self) -> None:
        for result, fake in self.each([hang_up, cut(), answer(200, SESSION)], lambda client: client.sessions.get("ses_1")):
            self.assertEqual(result.label, "Zürich")
            self.assertEqual(len(fake.received), 3)

    def test_operation_is_never_sent_twice(self) -> None:
        for first in (hang_up, cut(), problem(503, "capacity-exhausted", {"Retry-After": "0"}), problem(429, "rate-limited", {"Retry-After": "0"})):
            for result, fake in self.each([first, answer(201, SESSION)], lambda client: client.sessions.create()):
                self.assertIsInstance(result, errors.KitfleetError)
                self.assertEqual(len(fake.received), 1)

    def test_retry_after_is_obeyed_for_429_and_503(self) -> None:
        for first in (problem(429, "rate-limited", {"Retry-After": "1"}), problem(503, "feature-unavailable", {"Retry-After": "1"})):
            started = time.monotonic()
            (result, fake), _ = self.each([first, answer(200, SESSION)], lambda client: client.sessions.get("ses_1"))
            self.assertEqual(result.id, "ses_1")
            self.assertEqual(len(fake.received), 2)
            self.assertGreaterEqual(time.monotonic() - started, 2.0)

    def test_html_503_with_retry_after_is_repeated(self) -> None:
        for result, fake in self.each([answer(503, b"<html>", {"Retry-After": "0"}, "text/html"), answer(200, SESSION)], lambda client: client.sessions.get("ses_1")):
            self.assertEqual(result.id, "ses_1")
            self.assertEqual(len(fake.received), 2)

    def test_slow_operation_is_a_deadline_error_and_is_not_repeated(self) -> None:
        held = threading.Event()
        for result, fake in self.each([lambda handler: held.wait(5)], lambda client: client.sessions.interact("ses_1", action={"kind": "back"}, options={"timeout": 0.3})):
            self.assertIsInstance(result, errors.DeadlineExceededError)
            self.assertEqual(len(fake.received), 1)
        held.set()

    def test_header_that_http_cannot_carry_is_an_error_before_the_request(self) -> None:
        for options in ({"idempotency_key": "schlüssel"}, {"headers": {"X-Test": "a\nb"}}):
            for result, fake in self.each([answer(200, SESSION)], lambda client: client.sessions.get("ses_1", options=options)):
                self.assertIsInstance(result, ValueError)
                self.assertIn("header", str(result))
                self.assertEqual(fake.received, [])

    def test_without_retry_after_429_and_503_are_not_repeated(self) -> None:
        for code, status in (("concurrency-limit", 429), ("feature-unavailable", 503)):
            for result, fake in self.each([problem(status, code)], lambda client: client.sessions.get("ses_1")):
                self.assertEqual(result.code, code)
                self.assertIsNone(result.retry_after)
                self.assertEqual(len(fake.received), 1)

    def test_long_retry_after_is_not_waited_for(self) -> None:
        later = format_datetime(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1), usegmt=True)
        for value in ("3600", later):
            for result, fake in self.each([problem(429, "rate-limited", {"Retry-After": value})], lambda client: client.sessions.get("ses_1")):
                self.assertIsInstance(result, errors.RateLimitedError)
                self.assertAlmostEqual(result.retry_after, 3600, delta=5)
                self.assertEqual(len(fake.received), 1)

    def test_problem_is_the_class_of_its_code(self) -> None:
        fields = [{"field": "action.text", "message": "zu lang: 日本"}]
        for result, _ in self.each([problem(400, "validation-failed", errors=fields)], lambda client: client.sessions.create()):
            self.assertIsInstance(result, errors.ValidationFailedError)
            self.assertEqual((result.status, result.code, result.detail, result.request_id), (400, "validation-failed", "Grüezi", "req-9"))
            self.assertEqual(result.errors[0].field, "action.text")
            self.assertIn("日本", str(result))

    def test_missing_key_is_named(self) -> None:
        for result, _ in self.each([problem(401, "unauthorized")], lambda client: client.sessions.create(), api_key=None):
            self.assertIn("KITFLEET_API_KEY", str(result))
        for result, _ in self.each([problem(401, "unauthorized")], lambda client: client.sessions.create()):
            self.assertNotIn("KITFLEET_API_KEY", str(result))

    def test_errors_can_be_pickled(self) -> None:
        problems = self.each([problem(400, "validation-failed", errors=[{"field": "ü", "message": "日本"}])], lambda client: client.sessions.create())
        for error in (
            problems[0][0],
            errors.UnexpectedResponseError("ü", 502, {"x-request-id": "req-1"}, "<html>"),
            errors.ScriptError("TypeError", "ü", 3),
            errors.WebhookVerificationError("time", "ü"),
            errors.ConnectionFailedError("ü"),
        ):
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), str(copy)), (type(error), str(error)))
            self.assertEqual(getattr(copy, "request_id", None), getattr(error, "request_id", None))
            self.assertEqual(type(error).__module__, "kitfleet.errors")

    def test_unknown_code_is_a_problem(self) -> None:
        for result, _ in self.each([problem(418, "teapot", size=3)], lambda client: client.sessions.create()):
            self.assertIs(type(result), errors.ProblemError)
            self.assertEqual((result.code, result.body["size"]), ("teapot", 3))

    def test_code_of_the_document_wins_over_its_type(self) -> None:
        for result, _ in self.each([answer(404, {"type": "http://x/errors/elsewhere", "code": "not-found"})], lambda client: client.sessions.create()):
            self.assertIsInstance(result, errors.NotFoundError)

    def test_oauth_error_is_a_problem(self) -> None:
        body = {"error": "invalid_client", "error_description": "no such client"}
        for result, _ in self.each([answer(401, body)], lambda client: client.oauth.create_token(grant_type="client_credentials")):
            self.assertEqual((result.code, result.detail), ("invalid_client", "no such client"))

    def test_html_instead_of_a_problem_is_a_clear_error(self) -> None:
        page = "<html>Bad gateway – ärgerlich</html>".encode()
        for status in (200, 404, 502):
            for result, _ in self.each([answer(status, page, kind="text/html")], lambda client: client.sessions.create()):
                self.assertIsInstance(result, errors.UnexpectedResponseError)
                self.assertEqual((result.status, result.request_id), (status, "req-1"))
                self.assertIn("text/html", str(result))
                self.assertIn("ärgerlich", result.excerpt)

    def test_redirect_to_another_origin_is_not_followed(self) -> None:
        with Fake(answer(200, SESSION)) as other:
            to = other.url.replace("127.0.0.1", "localhost") + "/v1/sessions/ses_1"
            for target in (to, other.url + "/v1/sessions/ses_1"):
                for result, _ in self.each([answer(302, None, {"Location": target})], lambda client: client.sessions.get("ses_1")):
                    self.assertIsInstance(result, errors.RedirectError)
            self.assertEqual(other.received, [])

    def test_redirect_to_the_same_origin_is_followed_for_a_get_only(self) -> None:
        moved = answer(307, None, {"Location": "/v1/sessions/ses_1"})
        for result, fake in self.each([moved, answer(200, SESSION)], lambda client: client.sessions.get("ses_0")):
            self.assertEqual(result.id, "ses_1")
            self.assertEqual(fake.received[1].headers["authorization"], "Bearer key")
        for result, fake in self.each([moved, answer(201, SESSION)], lambda client: client.sessions.create()):
            self.assertIsInstance(result, errors.RedirectError)
            self.assertEqual(len(fake.received), 1)
        for result, fake in self.each([moved], lambda client: client.sessions.get("ses_0")):
            self.assertIsInstance(result, errors.RedirectError)
            self.assertLessEqual(len(fake.received), 6)

    def test_cancelled_task_closes_the_connection(self) -> None:
        async def run(fake: Fake) -> None:
            async with AsyncKitfleet(url=fake.url) as client:
                task = asyncio.ensure_future(client.sessions.evaluate("ses_1", script="return 1"))
                while not fake.received:
                    await asyncio.sleep(0.01)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertTrue(await asyncio.get_running_loop().run_in_executor(None, fake.closed.wait, 5))

        def watch(handler: Any) -> None:
            # Ends when the client has closed its side.
            if handler.connection.recv(1) == b"":
                fake.closed.set()
            handler.close_connection = True

        with Fake(watch) as fake:
            asyncio.run(run(fake))

    def test_cancelled_task_ends_the_wait_before_a_repetition(self) -> None:
        async def run(url: str) -> None:
            async with AsyncKitfleet(url=url) as client:
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(client.sessions.list().all(), 0.5)

        with Fake(problem(503, "feature-unavailable", {"Retry-After": "30"})) as fake:
            started = time.monotonic()
            asyncio.run(run(fake.url))
            self.assertLess(time.monotonic() - started, 20)
            self.assertEqual(len(fake.received), 1)

    def test_download_that_is_cut_leaves_no_file(self) -> None:
        import os
        import tempfile

        with tempfile.TemporaryDirectory() as folder, Fake(cut(10_000_000, b"x" * 100_000)) as fake, Kitfleet(url=fake.url) as client:
            with self.assertRaises(errors.ConnectionFailedError):
                client.sessions.downloads.content("ses_1", "dl_1").save(os.path.join(folder, "datei.bin"))
            self.assertEqual(os.listdir(folder), [])

    def test_stream_resumes_after_the_last_event(self) -> None:
        first = events(": comment\n\nid: 7\nevent: session.ready\ndata: {\"name\": \"Zü".encode(), "rich\"}\n\nid: 8\nevent: x\ndata: {\"half\"".encode())
        second = events(b"retry: 10\r\nid: 8\r\nevent: x\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n")
        third = events(b"id: 9\nevent: end\ndata: {}\n\n")

        def read(client: Any) -> Any:
            stream = client.notifications.stream()
            if isinstance(client, Kitfleet):
                return list(stream), stream.last_event_id

            async def collect() -> Any:
                return [event async for event in stream], stream.last_event_id

            return collect()

        for (found, last), fake in self.each([first, second, third], read):
            self.assertEqual([(event.id, event.event, event.data) for event in found], [("7", "session.ready", {"name": "Zürich"}), ("8", "x", {"a": 1})])
            self.assertEqual([request.headers.get("last-event-id") for request in fake.received], [None, "7", "8"])
            self.assertEqual(last, "9")

    def test_key_revoked_during_a_stream_is_an_error(self) -> None:
        def read(client: Any) -> Any:
            if isinstance(client, Kitfleet):
                return list(client.notifications.stream())

            async def collect() -> Any:
                return [event async for event in client.notifications.stream()]

            return collect()

        for result, fake in self.each([events(b"id: 1\nevent: x\ndata: {}\n\n"), problem(401, "unauthorized")], read):
            self.assertIsInstance(result, errors.UnauthorizedError)
            self.assertEqual(len(fake.received), 2)

    def test_stream_limit_is_an_error_at_once(self) -> None:
        for result, fake in self.each([problem(429, "concurrency-limit", limit=16)], lambda client: list(client.notifications.stream()) if isinstance(client, Kitfleet) else client.notifications.stream().__aiter__().__anext__()):
            self.assertIsInstance(result, errors.ConcurrencyLimitError)
            self.assertEqual(len(fake.received), 1)

    def test_closing_a_stream_ends_its_loop(self) -> None:
        held = threading.Event()
        with Fake(events(b"id: 1\nevent: x\ndata: {}\n\n", hold=held)) as fake, Kitfleet(url=fake.url) as client:
            with client.notifications.stream() as stream:
                for event in stream:
                    self.assertEqual(event.id, "1")
                    break
            held.set()

    def test_proxy_of_the_environment_is_used(self) -> None:
        import os
        from unittest import mock

        for kind in ("sync", "async"):
            with Fake(answer(200, SESSION)) as proxy, mock.patch.dict(os.environ, {"HTTP_PROXY": proxy.url, "NO_PROXY": "", "no_proxy": ""}):
                result = outcome(kind, "http://kitfleet.invalid", lambda client: client.sessions.get("ses_1"))
                self.assertEqual(result.id, "ses_1")
                self.assertEqual(proxy.received[0].path, "http://kitfleet.invalid/v1/sessions/ses_1")

    def test_proxy_is_not_used_for_hosts_of_no_proxy(self) -> None:
        import os
        from unittest import mock

        for kind in ("sync", "async"):
            with Fake(answer(200, SESSION)) as fake, mock.patch.dict(os.environ, {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "example.org,127.0.0.1", "no_proxy": "example.org,127.0.0.1"}):
                self.assertEqual(outcome(kind, fake.url, lambda client: client.sessions.get("ses_1")).id, "ses_1")
            with mock.patch.dict(os.environ, {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "", "no_proxy": ""}):
                self.assertIsInstance(outcome(kind, "http://kitfleet.invalid", lambda client: client.sessions.get("ses_1"), max_retries=0), errors.ConnectionFailedError)

    def test_https_goes_through_a_tunnel_of_the_proxy(self) -> None:
        import os
        from unittest import mock

        for kind in ("sync", "async"):
            with Fake(answer(403)) as proxy, mock.patch.dict(os.environ, {"HTTPS_PROXY": proxy.url, "NO_PROXY": "", "no_proxy": ""}):
                result = outcome(kind, "https://kitfleet.invalid:8443", lambda client: client.sessions.get("ses_1"), max_retries=0)
                self.assertIsInstance(result, errors.ConnectionFailedError)
                self.assertIn("403", str(result))
                self.assertEqual((proxy.received[0].method, proxy.received[0].path), ("CONNECT", "kitfleet.invalid:8443"))
                self.assertNotIn("authorization", proxy.received[0].headers)


class Many(unittest.TestCase):
    """A thousand sessions at once, each of which is opened, used and closed."""

    SESSIONS = 1000

    def serve(self) -> Fake:
        made = itertools.count()

        def send(handler: Any) -> None:
            if handler.command == "DELETE":
                return answer(204)(handler)
            if handler.path == "/v1/sessions":
                return answer(201, {**SESSION, "id": f"ses_{next(made)}"})(handler)
            answer(200, {"url": handler.path})(handler)

        return Fake(send)

    def check(self, fake: Fake, urls: List[str]) -> None:
        expected = sorted(f"/v1/sessions/ses_{number}/navigate" for number in range(self.SESSIONS))
        self.assertEqual(sorted(urls), expected)
        self.assertEqual(sorted(request.path for request in fake.received if request.path.endswith("/navigate")), expected)
        # A busy machine may lose a connection: only the end of a session may then be sent again.
        self.assertEqual(len([request for request in fake.received if request.method == "POST"]), 2 * self.SESSIONS)

    def test_thousand_tasks(self) -> None:
        async def use(client: AsyncKitfleet, label: str) -> str:
            async with client.sessions.create(label=label) as session:
                return (await session.navigate("https://example.com/straße")).url

        async def run(url: str) -> List[str]:
            async with AsyncKitfleet(url=url) as client:
                return await asyncio.gather(*(use(client, f"Sitzung {number}") for number in range(self.SESSIONS)))

        with self.serve() as fake:
            self.check(fake, asyncio.run(run(fake.url)))

    def test_threads_share_a_client(self) -> None:
        with self.serve() as fake, Kitfleet(url=fake.url) as client:

            def use(number: int) -> str:
                with client.sessions.create(label=f"Sitzung {number}") as session:
                    return session.navigate("https://example.com/straße").url

            with concurrent.futures.ThreadPoolExecutor(100) as pool:
                self.check(fake, list(pool.map(use, range(self.SESSIONS))))


if __name__ == "__main__":
    unittest.main()
