"""What differs between the two clients in input and output."""

import os
from typing import Any, AsyncIterable, AsyncIterator, Iterable, Mapping, Tuple, Union, cast

from .._common import AsyncUploadBody, read_chunks

__all__ = ["sleep", "upload_content"]


async def sleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def upload_content(body: AsyncUploadBody) -> Tuple[Union[bytes, AsyncIterable[bytes], None], Any]:
    """A body for httpx: its content, or an object that becomes JSON."""
    if isinstance(body, (bytes, bytearray)):
        return bytes(body), None
    if isinstance(body, str):
        return body.encode(), None
    if isinstance(body, os.PathLike):
        return _each(read_chunks(body)), None
    if isinstance(body, Mapping):
        return None, cast("Mapping[str, Any]", body)
    if isinstance(body, AsyncIterable):
        return body, None
    return _each(body), None
