"""The client."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Mapping, Optional, Type

import httpx

from .._common import RequestOptions
from ._content import AsyncContent
from ._core import AsyncCore
from ._resources import AsyncResources


def _handle(core: AsyncCore, model: str, data: Any) -> Any:
    # Loaded when they are needed: the models take a while.
    from . import _handles

    return (_handles.AsyncSession if model == "Session" else _handles.AsyncAgentSession)(core, data)


class AsyncKitfleet(AsyncResources):
    """Client of a Kitfleet service. `client.sessions.create()` opens a browser."""

    def __init__(
        self,
        *,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        account: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: int = 2,
        headers: Optional[Mapping[str, str]] = None,
        http_client: Optional[httpx.AsyncClient] = None,
    ) -> None:
        """Makes a client.

        - `url`: Address of the service; `KITFLEET_URL`, or `http://127.0.0.1:8080`, by default
        - `api_key`: API key, token of a web session or OAuth token; `KITFLEET_API_KEY` by default
        - `account`: Account to act on (`X-Service-Account`); the account of the key by default
        - `timeout`: Seconds until an answer is complete. By default 90 s for requests that may be repeated, 150 s for others,
          and the `timeout_ms` of an operation in addition; 600 s for messages to agent sessions
        - `max_retries`: How often a request that may be repeated is repeated
        - `headers`: Headers of every request
        - `http_client`: A client of httpx that sends the requests, such as one with a proxy of your own
        """
        self._core = AsyncCore(url, api_key, account, timeout, max_retries, headers, http_client, _handle)
        super().__init__(self._core)

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._core.url

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        json: Any = None,
        retryable: bool = False,
        options: Optional[RequestOptions] = None,
    ) -> AsyncContent:
        """Sends any request and returns its answer with headers. Problems are raised. It is repeated only if `retryable`."""
        return AsyncContent(await self._core.stream(method, path, options, query, json=json, retryable=retryable))

    async def close(self) -> None:
        """Closes the connections of the client."""
        await self._core.close()

    async def __aenter__(self) -> AsyncKitfleet:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()
