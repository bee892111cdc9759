"""The clients against a service that answers."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import pathlib
import tempfile
import time
import unittest
from typing import Any
from unittest import mock

from fake import SESSION, Fake, answer

import kitfleet
from kitfleet import AsyncKitfleet, Kitfleet, errors, models, verify_webhook

OK = answer(200, {"ok": True, "kind": "tap", "duration_ms": 1, "url": "http://x/"})
AGENT = {"id": "agt_1", "session_id": "ses_1", "status": "open"}


class Requests(unittest.TestCase):
    def test_session_is_closed_at_the_end_of_its_block(self) -> None:
        with Fake(answer(201, SESSION), OK, answer(204)) as fake:
            with Kitfleet(url=fake.url, api_key="schlüssel".encode().hex(), account="acc_1") as client, client.sessions.create(label="Zürich") as session:
                self.assertIsInstance(session, kitfleet.Session)
                session.get_by_role("button", name="Senden – jetzt", exact=True).tap(count=2, timeout_ms=500)
            created, tapped, closed = fake.received
            self.assertEqual((created.method, created.path, created.json()), ("POST", "/v1/sessions", {"label": "Zürich"}))
            self.assertEqual(created.headers["x-service-account"], "acc_1")
            self.assertEqual(
                tapped.json(),
                {"action": {"kind": "tap", "target": {"role": "button", "name": "Senden – jetzt", "exact": True}, "count": 2}, "timeout_ms": 500},
            )
            self.assertEqual((closed.method, closed.path), ("DELETE", "/v1/sessions/ses_1"))

    def test_async_session_is_closed_at_the_end_of_its_block(self) -> None:
        async def run(url: str) -> None:
            async with AsyncKitfleet(url=url) as client:
                async with client.sessions.create() as session:
                    await session.get_by_label("Name").fill("Zoë")
                opened = await client.sessions.get("ses_1")
                self.assertIsInstance(opened, kitfleet.AsyncSession)

        with Fake(answer(201, SESSION), OK, answer(204), answer(200, SESSION)) as fake:
            asyncio.run(run(fake.url))
            self.assertEqual([request.method for request in fake.received], ["POST", "POST", "DELETE", "GET"])

    def test_error_of_the_block_wins_over_that_of_closing(self) -> None:
        with Fake(answer(201, SESSION), answer(500, {"type": "x/internal", "status": 500})) as fake, Kitfleet(url=fake.url) as client:
            with self.assertRaises(ZeroDivisionError), client.sessions.create(options={"max_retries": 0}):
                raise ZeroDivisionError

    def test_every_locator_names_its_element(self) -> None:
        with Fake(answer(200, SESSION), OK) as fake, Kitfleet(url=fake.url) as client:
            session = client.sessions.get("ses_1")
            for locator, element in (
                (session.locator("#a >>> #b"), {"selector": "#a >>> #b"}),
                (session.get_by_text("Tschüss"), {"target": {"text": "Tschüss"}}),
                (session.get_by_label("Name", exact=True), {"target": {"label": "Name", "exact": True}}),
                (session.get_by_placeholder("Größe"), {"target": {"placeholder": "Größe"}}),
                (session.get_by_test_id('a"b\\c'), {"selector": '[data-testid="a\\"b\\\\c"]'}),
                (session.get_by_ref("e12"), {"target": {"ref": "e12"}}),
            ):
                locator.hover()
                self.assertEqual(fake.received[-1].json(), {"action": {"kind": "hover", **element}})
            to = session.locator("#to")
            for call, action in (
                (lambda one: one.type("ß", sensitive=True), {"kind": "type", "text": "ß", "sensitive": True}),
                (lambda one: one.fill("ü"), {"kind": "fill", "value": "ü"}),
                (lambda one: one.clear(), {"kind": "clear"}),
                (lambda one: one.check(), {"kind": "check", "checked": True}),
                (lambda one: one.uncheck(), {"kind": "check", "checked": False}),
                (lambda one: one.select("Größe"), {"kind": "select", "option": "Größe"}),
                (lambda one: one.select(["a", "b"]), {"kind": "select", "options": ["a", "b"]}),
                (lambda one: one.drag(to, at={"x": 1, "y": 2}), {"kind": "drag", "to": {"selector": "#to", "at": {"x": 1, "y": 2}}}),
                (lambda one: one.drag([{"x": 0, "y": 0}, {"x": 5, "y": 5}]), {"kind": "drag", "path": [{"x": 0, "y": 0}, {"x": 5, "y": 5}]}),
                (lambda one: one.swipe("left", distance=20), {"kind": "swipe", "direction": "left", "distance": 20}),
                (lambda one: one.upload(("bild.png", b"\x00\xff", "image/png")), {"kind": "upload", "files": [{"name": "bild.png", "content": "AP8=", "content_type": "image/png"}]}),
            ):
                call(session.locator("#a"))
                self.assertEqual(fake.received[-1].json(), {"action": {"selector": "#a", **action}})

    def test_upload_reads_a_path(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Fake(answer(200, SESSION), OK) as fake, Kitfleet(url=fake.url) as client:
            path = pathlib.Path(folder, "größe.txt")
            path.write_bytes(b"abc")
            client.sessions.get("ses_1").upload(path, str(path))
            files = fake.received[-1].json()["action"]["files"]
            self.assertEqual(files, [{"name": "größe.txt", "content": base64.b64encode(b"abc").decode()}] * 2)

    def test_list_yields_the_entries_of_all_pages(self) -> None:
        def entry(number: int) -> Any:
            return {**SESSION, "id": f"ses_{number}"}

        pages = [
            answer(200, {"data": [entry(1), entry(2)], "has_more": True, "next_cursor": "c/1+ü"}),
            answer(200, {"data": [], "has_more": True, "next_cursor": "c2"}),
            answer(200, {"data": [entry(3)], "has_more": False, "next_cursor": None}),
        ]
        with Fake(*pages) as fake, Kitfleet(url=fake.url) as client:
            self.assertEqual([session.id for session in client.sessions.list(limit=2, status="ready")], ["ses_1", "ses_2", "ses_3"])
            self.assertEqual([request.path for request in fake.received][1], "/v1/sessions?limit=2&cursor=c%2F1%2B%C3%BC&status=ready")

        async def run(url: str) -> None:
            async with AsyncKitfleet(url=url) as client:
                page = await client.sessions.list()
                self.assertEqual((len(page.data), page.has_more), (2, True))
                self.assertIsInstance(page.data[0], kitfleet.AsyncSession)
                self.assertEqual(len([session async for session in page]), 3)

        with Fake(*pages) as fake:
            asyncio.run(run(fake.url))

    def test_patch_sends_null_only_if_it_was_given(self) -> None:
        with Fake(answer(200, SESSION), answer(200, {})) as fake, Kitfleet(url=fake.url) as client:
            client.sessions.get("ses_1")
            client.sessions.update_emulation("ses_1", geolocation=None, offline=True)
            self.assertEqual(fake.received[-1].json(), {"geolocation": None, "offline": True})

    def test_models_nest_and_know_members_of_later_versions(self) -> None:
        turn = models.AgentTurn({"turn_id": "t", "intents": [{"id": "step_1", "kind": "tap", "status": "done", "neu": "ü"}]})
        self.assertEqual(turn.intents[0].status, "done")
        self.assertEqual(turn.intents[0].neu, "ü")
        self.assertIsNone(turn.dialog)
        with self.assertRaises(AttributeError):
            turn.nothing
        self.assertEqual(turn, models.AgentTurn(turn.to_dict()))

    def test_agent_turn_is_approved(self) -> None:
        step = {"id": "step_1", "kind": "tap", "status": "needs_approval", "needs_approval": True, "result": None, "error": None}
        turn = {"turn_id": "turn_1", "kind": "plan", "reply": "…", "intents": [step], "tokens_used": 0}
        done = {**turn, "intents": [{**step, "status": "done", "result": {"ok": True}}]}
        with Fake(answer(201, AGENT), answer(200, turn), answer(200, done), answer(204)) as fake, Kitfleet(url=fake.url) as client:
            with client.agent_sessions.create() as agent:
                waiting = agent.send("tippe «Senden»", options={"idempotency_key": "k1"})
                self.assertEqual([intent.id for intent in waiting.waiting], ["step_1"])
                self.assertEqual(waiting.approve().results, [{"ok": True}])
            self.assertEqual(fake.received[1].headers["idempotency-key"], "k1")
            self.assertEqual(fake.received[2].json(), {"message": "approved", "approvals": ["step_1"]})

    def test_capture_and_evaluate(self) -> None:
        picture = {"kind": "screenshot", "encoding": "base64", "content": base64.b64encode(b"\x89PNG").decode(), "content_type": "image/png", "bytes": 4}
        thrown = {"value": None, "exception": {"name": "TypeError", "message": "ü is not a function", "line": 3}}
        with tempfile.TemporaryDirectory() as folder, Fake(answer(200, SESSION), answer(200, picture), answer(200, {"value": ["ü"], "exception": None}), answer(200, thrown)) as fake, Kitfleet(url=fake.url) as client:
            session = client.sessions.get("ses_1")
            path = os.path.join(folder, "bild.png")
            self.assertEqual(session.screenshot(full_page=True, path=path), b"\x89PNG")
            self.assertEqual(pathlib.Path(path).read_bytes(), b"\x89PNG")
            self.assertEqual(session.evaluate("return args", "ü"), ["ü"])
            with self.assertRaises(errors.ScriptError) as raised:
                session.evaluate("ü()")
            self.assertEqual(raised.exception.line, 3)

    def test_profile_is_exported_to_a_file_and_imported_from_it(self) -> None:
        document = json.dumps({"name": "Käufer"}, ensure_ascii=False).encode() * 50_000
        exported = answer(200, document, {"Content-Disposition": "attachment; filename=\"x.json\"; filename*=UTF-8''K%C3%A4ufer.json"}, "application/vnd.kitfleet.profile+json")
        with tempfile.TemporaryDirectory() as folder, Fake(exported, answer(201, {"id": "prof_1"})) as fake, Kitfleet(url=fake.url) as client:
            content = client.profiles.export_archive("prof_0")
            self.assertEqual(content.file_name, "Käufer.json")
            path = pathlib.Path(folder, "profil.json")
            content.save(path)
            self.assertEqual(client.profiles.import_archive(path).id, "prof_1")
            self.assertEqual(fake.received[1].body, document)
            self.assertEqual(fake.received[1].headers["content-type"], "application/vnd.kitfleet.profile+json")
            fake.answers = [answer(201, {"id": "prof_2"})]

            async def run() -> None:
                async with AsyncKitfleet(url=fake.url) as client:
                    await client.profiles.import_archive(path)

            asyncio.run(run())
            self.assertEqual(fake.received[2].body, document)

    def test_trace_and_timeline_use_the_paths_of_the_session(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Fake(answer(200, SESSION), answer(200, b"PK", kind="application/zip"), answer(200, {"data": [{"seq": 1}], "next_cursor": None, "has_more": False})) as fake, Kitfleet(url=fake.url) as client:
            session = client.sessions.get("ses_1")
            session.trace(os.path.join(folder, "trace.zip"), format=8)
            self.assertEqual(session.timeline().all(), [{"seq": 1}])
            self.assertEqual([request.path for request in fake.received[1:]], ["/v1/sessions/ses_1/trace?format=8", "/v1/sessions/ses_1/timeline"])

    def test_raw_answer_and_on_response(self) -> None:
        seen = []
        with Fake(answer(200, {"ü": 1})) as fake, Kitfleet(url=fake.url) as client:
            raw = client.request("GET", "/v1/status", query={"a": "ü"}, options={"on_response": seen.append, "headers": {"X-Test": "1"}})
            self.assertEqual(raw.json(), {"ü": 1})
            self.assertEqual((seen[0].status, seen[0].headers["x-request-id"]), (200, "req-1"))
            self.assertEqual((fake.received[0].path, fake.received[0].headers["x-test"]), ("/v1/status?a=%C3%BC", "1"))

    def test_path_arguments_are_quoted(self) -> None:
        with Fake(answer(200, SESSION)) as fake, Kitfleet(url=fake.url + "/prefix/") as client:
            client.sessions.get("../a b?ü")
            self.assertEqual(fake.received[0].path, "/prefix/v1/sessions/..%2Fa%20b%3F%C3%BC")

    def test_environment_names_address_and_key(self) -> None:
        with Fake(answer(200, SESSION)) as fake, mock.patch.dict(os.environ, {"KITFLEET_URL": fake.url, "KITFLEET_API_KEY": "svc_test"}):
            with Kitfleet() as client:
                client.sessions.get("ses_1")
            self.assertEqual(fake.received[0].headers["authorization"], "Bearer svc_test")
        for bad in ("svc test", "svc\n", "svc_ü"):
            with self.assertRaises(ValueError):
                Kitfleet(api_key=bad)
        with self.assertRaises(ValueError):
            Kitfleet(url="kitfleet.example")

    def test_form_is_encoded(self) -> None:
        with Fake(answer(200, {"access_token": "t", "token_type": "bearer", "expires_in": 1})) as fake, Kitfleet(url=fake.url) as client:
            client.oauth.create_token(grant_type="client_credentials", client_secret="ä&b")
            self.assertEqual(fake.received[0].body, b"client_secret=%C3%A4%26b&grant_type=client_credentials")

    def test_location_and_address(self) -> None:
        with Fake(answer(303, None, {"Location": "https://idp.example/authorize?x=1"})) as fake, Kitfleet(url=fake.url) as client:
            self.assertEqual(client.auth.start_oauth_sign_in("google"), "https://idp.example/authorize?x=1")
            self.assertEqual(client.sessions.live("ses_1"), fake.url.replace("http", "ws") + "/v1/sessions/ses_1/live")

    def test_texts_are_methods_of_their_own(self) -> None:
        with Fake(answer(200, "print('ü')".encode(), kind="text/x-python")) as fake, Kitfleet(url=fake.url) as client:
            self.assertEqual(client.recipes.get_text("rec_1", format="python"), "print('ü')")
            self.assertEqual(fake.received[0].path, "/v1/recipes/rec_1?format=python")


class Webhooks(unittest.TestCase):
    body = json.dumps({"id": "evt", "type": "test.ping", "created_at": "2026-11-20T18:05:00.123Z", "data": {"name": "ü"}}, ensure_ascii=False).encode()

    def header(self, at: int, *secrets: str, body: bytes = b"") -> str:
        signatures = [hmac.new(secret.encode(), f"{at}.".encode() + (body or self.body), hashlib.sha256).hexdigest() for secret in secrets]
        return ",".join([f"t={at}"] + [f"v1={signature}" for signature in signatures])

    def reason(self, header: Any, secret: str = "whsec_a", **more: Any) -> str:
        with self.assertRaises(errors.WebhookVerificationError) as raised:
            verify_webhook(self.body, header, secret, **more)
        return raised.exception.reason

    def test_signed_event_is_returned(self) -> None:
        now = int(time.time())
        event = verify_webhook(self.body, self.header(now, "whsec_a"), "whsec_a")
        self.assertIsInstance(event, models.TestPingEvent)
        verify_webhook(self.body.decode(), self.header(now, "whsec_new", "whsec_a"), "whsec_a")

    def test_forged_old_and_malformed_ones_are_refused(self) -> None:
        now = int(time.time())
        self.assertEqual(self.reason(self.header(now, "whsec_b")), "signature")
        self.assertEqual(self.reason(self.header(now, "whsec_a", body=b"{}")), "signature")
        self.assertEqual(self.reason(f"t={now},v1=ü"), "signature")
        self.assertEqual(self.reason(self.header(now - 301, "whsec_a"), now=float(now)), "time")
        self.assertEqual(self.reason(self.header(now + 301, "whsec_a"), now=float(now)), "time")
        self.assertEqual(self.reason(self.header(now, "whsec_a"), now=float("nan")), "time")
        for header in (None, "", "t=1", f"t={now},t={now},v1=00", "t=-1,v1=00", f"v1=00,t={now}x"):
            self.assertEqual(self.reason(header), "malformed")
        with self.assertRaises(ValueError):
            verify_webhook(self.body, self.header(now, ""), "")


if __name__ == "__main__":
    unittest.main()
