# Written from ../_async by clients/generate/generate.py. Do not edit.

"""Streams of events."""

from __future__ import annotations

from typing import Any, Iterator, Callable, Dict, Mapping, Optional, cast

import httpx

from .._common import STREAM_ATTEMPTS, EventDecoder, RequestOptions, ServerEvent, backoff
from .._errors import ConnectionFailedError
from ._io import sleep

Connect = Callable[[RequestOptions, Mapping[str, Any], Optional[Dict[str, str]]], httpx.Response]


class EventStream:
    """Events as they happen.

    A stream that breaks is opened again after the last event, so that none is lost. It ends after the service's event `end`, and
    fails with a problem, such as `UnauthorizedError` when the key was revoked.
    """

    def __init__(self, connect: Connect, options: Optional[RequestOptions], query: Optional[Mapping[str, Any]]) -> None:
        self._connect = connect
        self._options = cast(RequestOptions, {"max_retries": STREAM_ATTEMPTS, **(options or {})})
        self._query = {name: value for name, value in (query or {}).items() if name != "last_event_id"}
        self.last_event_id: Optional[str] = (query or {}).get("last_event_id")
        """ID of the last event, to continue after it in another process."""
        self._response: Optional[httpx.Response] = None
        self._closed = False

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._closed = True
        if self._response is not None:
            self._response.close()

    def __iter__(self) -> Iterator[ServerEvent]:
        failures = 0
        while True:
            decoder = EventDecoder()
            more = {"last-event-id": self.last_event_id} if self.last_event_id else None
            self._response = response = self._connect(self._options, self._query, more)
            try:
                for part in response.iter_bytes():
                    for event in decoder.feed(part):
                        failures = 0
                        if event.id:
                            self.last_event_id = event.id
                        if event.event == "end":
                            return
                        yield event
            except (httpx.HTTPError, httpx.StreamError) as error:
                if self._closed:
                    return
                if failures >= STREAM_ATTEMPTS:
                    raise ConnectionFailedError("The stream broke") from error
            finally:
                response.close()
            # The service ended the stream, because it stops or the key does not count any more: the next attempt tells which.
            failures += 1
            if failures > STREAM_ATTEMPTS:
                raise ConnectionFailedError("The stream ended several times without an event")
            sleep(backoff(failures - 1) if decoder.pause is None else decoder.pause)
