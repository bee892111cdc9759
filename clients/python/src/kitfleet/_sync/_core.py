# Written from ../_async by clients/generate/generate.py. Do not edit.

"""Sends requests. It repeats only requests that the contract says may be repeated."""

from __future__ import annotations

import json as _json
import ssl
import time
import urllib.parse
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, TypeVar, cast

import httpx

from .._common import (
    REDIRECTS,
    SILENCE,
    TURN,
    UploadBody,
    RequestOptions,
    ResponseInfo,
    backoff,
    base_url,
    check_headers,
    credential,
    decode,
    default_timeout,
    origin,
    raise_failure,
    repeat_after,
    search,
    unexpected,
)
from .._errors import ConnectionFailedError, DeadlineExceededError, KitfleetError, RedirectError
from .._version import VERSION
from ._content import Content
from ._io import sleep, upload_content
from ._pager import Page
from ._stream import EventStream

H = TypeVar("H")

_MOST_REDIRECTS = 5
_CONNECT = 30.0
_HANDLES = ("Session", "AgentSession")


class Core:
    def __init__(
        self,
        url: Optional[str],
        api_key: Optional[str],
        account: Optional[str],
        timeout: Optional[float],
        max_retries: int,
        headers: Optional[Mapping[str, str]],
        http_client: Optional[httpx.Client],
        handle: Callable[[Core, str, Any], Any],
    ) -> None:
        self.url = base_url(url)
        self._handle = handle
        self.timeout = timeout
        self._max_retries = max_retries
        self._origin = origin(self.url)
        self._headers = {"accept": "application/json", "user-agent": f"kitfleet-python/{VERSION}"}
        key = credential(api_key)
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        if account is not None:
            self._headers["x-service-account"] = account
        self._headers.update({name.lower(): value for name, value in (headers or {}).items()})
        # An http address needs no certificates, which take time to load: TLS then trusts none.
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if self.url.startswith("http:") else True
        limits = httpx.Limits(max_connections=1000, max_keepalive_connections=20)
        self._http = http_client or httpx.Client(follow_redirects=False, limits=limits, verify=verify)

    def close(self) -> None:
        self._http.close()

    def wrap(self, model: str, data: Any) -> Any:
        if model in _HANDLES:
            return self._handle(self, model, data)
        # Loaded when they are needed: the models take a while.
        from .. import models

        return models.REGISTRY.wrap(model, data)

    def call(
        self,
        method: str,
        path: str,
        options: Optional[RequestOptions] = None,
        *,
        query: Optional[Mapping[str, Any]] = None,
        json: Any = None,
        form: Any = None,
        content: Optional[UploadBody] = None,
        media: Optional[str] = None,
        retryable: bool = False,
        slow: bool = False,
        model: Optional[str] = None,
    ) -> Any:
        """JSON of an answer, as a model if it has one."""
        if slow and self.timeout is None:
            options = cast(RequestOptions, {"timeout": TURN, **(options or {})})
        body, status, headers = self._bytes(method, path, options, query, json, form, content, media, retryable, "application/json")
        data = decode(body, status, headers, self.url)
        if model is None or status == 204:
            return data
        if not isinstance(data, dict) and (model in _HANDLES or not isinstance(data, list)):
            raise unexpected(status, headers, body.decode(errors="replace"), self.url)
        return self.wrap(model, data)

    def open(self, method: str, path: str, options: Optional[RequestOptions] = None, **call: Any) -> Any:
        return self.call(method, path, options, **call)

    def text(
        self, method: str, path: str, options: Optional[RequestOptions] = None, *, query: Optional[Mapping[str, Any]] = None, retryable: bool = False
    ) -> str:
        body, _, _ = self._bytes(method, path, options, query, None, None, None, None, retryable, "*/*")
        return body.decode()

    def location(
        self, method: str, path: str, options: Optional[RequestOptions] = None, *, query: Optional[Mapping[str, Any]] = None, retryable: bool = False
    ) -> str:
        """The address that the answer redirects to."""
        _, _, headers = self._bytes(method, path, options, query, None, None, None, None, retryable, "*/*", redirects=True)
        return headers.get("location", "")

    def address(self, path: str) -> str:
        """The address of a WebSocket."""
        return "ws" + self.url[len("http") :] + path

    def content(
        self, method: str, path: str, options: Optional[RequestOptions] = None, *, query: Optional[Mapping[str, Any]] = None, retryable: bool = False
    ) -> Content:
        """An answer whose body is read by the caller."""
        return Content(self.stream(method, path, options, query, retryable=retryable, accept="*/*"))

    def page(
        self,
        path: str,
        options: Optional[RequestOptions] = None,
        *,
        query: Optional[Mapping[str, Any]] = None,
        retryable: bool = False,
        model: Optional[str] = None,
    ) -> Page[Any]:
        def fetch(cursor: Optional[str]) -> Dict[str, Any]:
            asked = query if cursor is None else {**(query or {}), "cursor": cursor}
            content, status, headers = self._bytes("GET", path, options, asked, None, None, None, None, retryable, "application/json")
            data = decode(content, status, headers, self.url)
            body = cast(Dict[str, Any], data if isinstance(data, dict) else {})
            if not isinstance(body.get("data"), list):
                raise unexpected(status, headers, content.decode(errors="replace"), self.url)
            if model is not None:
                body["data"] = [self.wrap(model, entry) for entry in body["data"]]
            return body

        return Page(fetch(None), fetch)

    def events(
        self, path: str, options: Optional[RequestOptions] = None, *, query: Optional[Mapping[str, Any]] = None, retryable: bool = True
    ) -> EventStream:
        def connect(options: RequestOptions, query: Mapping[str, Any], more: Optional[Dict[str, str]]) -> httpx.Response:
            return self.stream("GET", path, options, query, retryable=True, accept="text/event-stream", headers=more, silence=SILENCE)

        return EventStream(connect, options, query)

    def _bytes(
        self,
        method: str,
        path: str,
        options: Optional[RequestOptions],
        query: Optional[Mapping[str, Any]],
        json: Any,
        form: Any,
        content: Optional[UploadBody],
        media: Optional[str],
        retryable: bool,
        accept: str,
        redirects: bool = False,
    ) -> Tuple[bytes, int, Mapping[str, str]]:
        timeout = (options or {}).get("timeout", self.timeout)
        if timeout is None:
            timeout = default_timeout(retryable, json)
        attempt = 0
        while True:
            try:
                deadline = time.monotonic() + timeout
                response = self._attempt(method, path, options, query, json, form, content, media, accept, timeout, redirects)
                return self._read(response, deadline), response.status_code, response.headers
            except KitfleetError as error:
                self._pause(error, attempt, retryable, options)
                attempt += 1

    def stream(
        self,
        method: str,
        path: str,
        options: Optional[RequestOptions],
        query: Optional[Mapping[str, Any]] = None,
        *,
        json: Any = None,
        retryable: bool = False,
        accept: str = "*/*",
        headers: Optional[Mapping[str, str]] = None,
        silence: Optional[float] = None,
    ) -> httpx.Response:
        """A successful answer whose body is not read yet."""
        timeout = (options or {}).get("timeout", self.timeout)
        if timeout is None:
            timeout = default_timeout(retryable, json)
        attempt = 0
        while True:
            try:
                return self._attempt(method, path, options, query, json, None, None, None, accept, silence or timeout, False, headers)
            except KitfleetError as error:
                self._pause(error, attempt, retryable, options)
                attempt += 1

    def _pause(self, error: KitfleetError, attempt: int, retryable: bool, options: Optional[RequestOptions]) -> None:
        """Waits before the request is repeated, or raises its error."""
        if not retryable or attempt >= (options or {}).get("max_retries", self._max_retries):
            raise error
        after = backoff(attempt) if isinstance(error, ConnectionFailedError) else repeat_after(error)
        if after is None:
            raise error
        sleep(after)

    def _attempt(
        self,
        method: str,
        path: str,
        options: Optional[RequestOptions],
        query: Optional[Mapping[str, Any]],
        json: Any,
        form: Any,
        content: Optional[UploadBody],
        media: Optional[str],
        accept: str,
        timeout: float,
        redirects: bool,
        more: Optional[Mapping[str, str]] = None,
    ) -> httpx.Response:
        headers = dict(self._headers)
        headers["accept"] = accept
        data: Any = None
        if media is not None:
            data, json = upload_content(cast(Any, content))
            headers["content-type"] = media
        elif json is not None:
            headers["content-type"] = "application/json"
        if json is not None:
            data = _json.dumps(json, ensure_ascii=False, allow_nan=False).encode()
        if form is not None:
            data = urllib.parse.urlencode(form).encode()
            headers["content-type"] = "application/x-www-form-urlencoded"
        if options:
            if "account" in options:
                headers["x-service-account"] = options["account"]
            if "idempotency_key" in options:
                headers["idempotency-key"] = options["idempotency_key"]
            headers.update({name.lower(): value for name, value in options.get("headers", {}).items()})
        if more:
            headers.update(more)
        check_headers(headers)
        url = self.url + path + search(query)
        phases = httpx.Timeout(timeout, connect=min(timeout, _CONNECT))
        followed = 0
        while True:
            request = self._http.build_request(method, url, content=data, headers=headers, timeout=phases)
            try:
                response = self._http.send(request, stream=True, follow_redirects=False)
            except httpx.ConnectTimeout as error:
                raise ConnectionFailedError(f"No connection to {self.url} within {min(timeout, _CONNECT):g} s") from error
            except httpx.TimeoutException as error:
                raise DeadlineExceededError(f"No answer within {timeout:g} s: {method} {path}") from error
            except httpx.TransportError as error:
                raise ConnectionFailedError(f"No answer of {self.url}: {error or type(error).__name__}") from error
            status = response.status_code
            if options and "on_response" in options:
                options["on_response"](ResponseInfo(status, response.headers, url))
            if 200 <= status < 300 or (redirects and status in REDIRECTS):
                return response
            if status not in REDIRECTS:
                raise_failure(self._read(response, time.monotonic() + timeout), status, response.headers, self.url, "authorization" in headers)
            response.close()
            to = response.headers.get("location")
            target = urllib.parse.urljoin(url, to) if to else ""
            if method != "GET" or origin(target) != self._origin or followed >= _MOST_REDIRECTS:
                where = f" to {target}" if target else ""
                raise RedirectError(
                    f"{method} {path} was redirected{where}, which is not followed. Is the address {self.url} right?", status, response.headers
                )
            followed += 1
            url = target

    def _read(self, response: httpx.Response, deadline: float) -> bytes:
        parts: List[bytes] = []
        try:
            for part in response.iter_bytes():
                parts.append(part)
                if time.monotonic() > deadline:
                    raise DeadlineExceededError("The answer was not complete in time")
        except httpx.TimeoutException as error:
            raise DeadlineExceededError("The answer was not complete in time") from error
        except httpx.HTTPError as error:
            raise ConnectionFailedError("The connection ended before the answer was complete") from error
        finally:
            response.close()
        return b"".join(parts)
