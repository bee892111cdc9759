# Written from ../_async by clients/generate/generate.py. Do not edit.

"""Files of the service."""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any, Iterator, List, Optional, Type, Union

import httpx

from .._common import PartFile, file_name
from .._errors import ConnectionFailedError, DeadlineExceededError


class Content:
    """A file of the service, which is read as it arrives. Read it to its end, or close it."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.headers = response.headers
        self.content_type: str = response.headers.get("content-type", "application/octet-stream")
        self.file_name: Optional[str] = file_name(response.headers)
        """The name that the service suggests."""

    def __enter__(self) -> Content:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection without reading the rest."""
        self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        try:
            for part in self._response.iter_bytes():
                yield part
        except httpx.TimeoutException as error:
            raise DeadlineExceededError("No data of the content in time") from error
        except httpx.HTTPError as error:
            raise ConnectionFailedError("The connection ended before the content was complete") from error
        finally:
            self.close()

    def read(self) -> bytes:
        parts: List[bytes] = []
        for part in self:
            parts.append(part)
        return b"".join(parts)

    def text(self) -> str:
        return (self.read()).decode()

    def json(self) -> Any:
        return json.loads(self.read())

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the content to a file, which exists only once it is complete."""
        try:
            with PartFile(path) as file:
                for part in self:
                    file.write(part)
        finally:
            self.close()
