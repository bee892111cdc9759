"""Fails when the clients add more than 1 ms to a call of httpx itself, at the best of five rounds, without a network."""

import asyncio
import json
import sys
import time
from typing import Any

import httpx

from kitfleet import AsyncKitfleet, Kitfleet

CALLS = 300
BODY = json.dumps({"ok": True, "kind": "tap", "duration_ms": 63, "url": "https://example.com/"}).encode()
ACTION: Any = {"kind": "tap", "target": {"role": "button", "name": "Send"}}


def respond(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "application/json"}, content=BODY)


def plain() -> float:
    with httpx.Client(transport=httpx.MockTransport(respond)) as client:
        at = time.perf_counter()
        for _ in range(CALLS):
            client.post("http://x/v1/sessions/ses_1/interact", json={"action": ACTION}, headers={"authorization": "Bearer x"}).json()
        return (time.perf_counter() - at) / CALLS * 1000


def sync() -> float:
    with Kitfleet(url="http://x", api_key="x", http_client=httpx.Client(transport=httpx.MockTransport(respond))) as client:
        at = time.perf_counter()
        for _ in range(CALLS):
            assert client.sessions.interact("ses_1", action=ACTION).ok
        return (time.perf_counter() - at) / CALLS * 1000


async def asynchronous() -> float:
    async with AsyncKitfleet(url="http://x", api_key="x", http_client=httpx.AsyncClient(transport=httpx.MockTransport(respond))) as client:
        at = time.perf_counter()
        for _ in range(CALLS):
            assert (await client.sessions.interact("ses_1", action=ACTION)).ok
        return (time.perf_counter() - at) / CALLS * 1000


httpx_alone = min(plain() for _ in range(5))
times = {"synchronous": min(sync() for _ in range(5)), "asynchronous": min(asyncio.run(asynchronous()) for _ in range(5))}
for name, milliseconds in times.items():
    print(f"Python, {name}: a call takes {milliseconds:.3f} ms without the network, of which httpx alone takes {httpx_alone:.3f} ms")
sys.exit(max(times.values()) - httpx_alone > 1)
