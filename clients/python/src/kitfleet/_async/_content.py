"""Files of the service."""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any, AsyncIterator, List, Optional, Type, Union

import httpx

from .._common import PartFile, file_name
from .._errors import ConnectionFailedError, DeadlineExceededError


class AsyncContent:
    """A file of the service, which is read as it arrives. Read it to its end, or close it."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.headers = response.headers
        self.content_type: str = response.headers.get("content-type", "application/octet-stream")
        self.file_name: Optional[str] = file_name(response.headers)
        """The name that the service suggests."""

    async def __aenter__(self) -> AsyncContent:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection without reading the rest."""
        await self._response.aclose()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._response.aiter_bytes():
                yield part
        except httpx.TimeoutException as error:
            raise DeadlineExceededError("No data of the content in time") from error
        except httpx.HTTPError as error:
            raise ConnectionFailedError("The connection ended before the content was complete") from error
        finally:
            await self.close()

    async def read(self) -> bytes:
        parts: List[bytes] = []
        async for part in self:
            parts.append(part)
        return b"".join(parts)

    async def text(self) -> str:
        return (await self.read()).decode()

    async def json(self) -> Any:
        return json.loads(await self.read())

    async def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the content to a file, which exists only once it is complete."""
        try:
            with PartFile(path) as file:
                async for part in self:
                    file.write(part)
        finally:
            await self.close()
