"""What differs between the two clients in input and output."""

import os
from time import sleep
from typing import Any, Iterable, Mapping, Tuple, Union, cast

from .._common import UploadBody, read_chunks

__all__ = ["sleep", "upload_content"]


def upload_content(body: UploadBody) -> Tuple[Union[bytes, Iterable[bytes], None], Any]:
    """A body for httpx: its content, or an object that becomes JSON."""
    if isinstance(body, (bytes, bytearray)):
        return bytes(body), None
    if isinstance(body, str):
        return body.encode(), None
    if isinstance(body, os.PathLike):
        return read_chunks(body), None
    if isinstance(body, Mapping):
        return None, cast("Mapping[str, Any]", body)
    return body, None
