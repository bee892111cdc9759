"""What the synchronous and the asynchronous client share."""

import base64
import codecs
import json
import os
import random
import re
import urllib.parse
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    AsyncIterable,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    TypedDict,
    Union,
    cast,
)

from ._errors import ProblemError, UnexpectedResponseError
from ._problems import PROBLEMS

if TYPE_CHECKING:
    from . import params

LONGEST_WAIT = 60.0
"""Longest `Retry-After` that is waited for, in seconds."""
SILENCE = 60.0
"""Seconds without data after which a stream is broken. The service sends a comment every 15 s."""
STREAM_ATTEMPTS = 10
"""Attempts to connect again, without an event in between, before a stream fails."""
TURN = 600.0
"""Longer than the longest turn of an agent session."""
REDIRECTS = frozenset([301, 302, 303, 307, 308])

UploadBody = Union[bytes, str, "os.PathLike[str]", Mapping[str, Any], Iterable[bytes]]
"""A body that is sent as it is. A path is opened and sent as it is read."""
AsyncUploadBody = Union[bytes, str, "os.PathLike[str]", Mapping[str, Any], Iterable[bytes], AsyncIterable[bytes]]
FileToUpload = Union[str, "os.PathLike[str]", Tuple[str, bytes], Tuple[str, bytes, str]]
"""A file to upload: a path, or a name with bytes and, if need be, their media type."""
Extractions = Mapping[str, Union[str, Mapping[str, Any]]]
"""What to extract, by name: a selector, whose text is the value, or an extraction without its name."""


class Omit:
    """The value of an argument that was not given, where None is a value of its own."""

    def __repr__(self) -> str:
        return "OMIT"


OMIT = Omit()


class ResponseInfo:
    """Status and headers of an answer."""

    def __init__(self, status: int, headers: Mapping[str, str], url: str) -> None:
        self.status = status
        self.headers = headers
        self.url = url


class RequestOptions(TypedDict, total=False):
    """Options of one request."""

    timeout: float
    """Seconds until the answer is complete."""
    max_retries: int
    """How often the request is repeated, if it may be repeated."""
    headers: Mapping[str, str]
    account: str
    """Account to act on (`X-Service-Account`)."""
    idempotency_key: str
    """`Idempotency-Key`, on the routes that take one."""
    on_response: Callable[[ResponseInfo], None]
    """Receives every answer before its body is read."""


def quote(text: Union[str, int]) -> str:
    """A segment of a path. An empty one, or one of dots, would name another route."""
    segment = urllib.parse.quote(str(text), safe="")
    if segment in ("", ".", ".."):
        raise ValueError(f"{str(text)!r} is not an ID")
    return segment


def given(optional: Mapping[str, Any], kept: Mapping[str, Any]) -> Dict[str, Any]:
    """A body without the arguments that were not given."""
    body = {name: value for name, value in optional.items() if value is not None}
    body.update({name: value for name, value in kept.items() if value is not OMIT})
    return body


def search(query: Optional[Mapping[str, Any]]) -> str:
    pairs: List[Tuple[str, str]] = []
    for name, value in (query or {}).items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, (list, tuple)):
            value = ",".join(str(item) for item in cast("Sequence[Any]", value))
        pairs.append((name, str(value)))
    return "?" + urllib.parse.urlencode(pairs) if pairs else ""


def backoff(attempt: int) -> float:
    """Seconds before the next attempt, with jitter."""
    return min(8.0, 0.25 * float(2**attempt)) * (0.5 + random.random() / 2)


def origin(url: str) -> Tuple[str, str, Optional[int]]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def default_timeout(retryable: bool, body: Any) -> float:
    seconds = 90.0 if retryable else 150.0
    if isinstance(body, dict):
        fields = cast(Dict[str, Any], body)
        # `timeout_seconds` is the time of each of several steps.
        for name, factor in (("timeout_ms", 0.001), ("wait_timeout_ms", 0.001), ("timeout_seconds", 4.0)):
            value = fields.get(name)
            if isinstance(value, (int, float)):
                seconds += value * factor
    return seconds


def unexpected(status: int, headers: Mapping[str, str], text: str, url: str) -> UnexpectedResponseError:
    kind = headers.get("content-type", "no content type").split(";")[0]
    message = f"The answer {status} is {kind}, not JSON of Kitfleet. Is the address {url} right?"
    return UnexpectedResponseError(message, status, headers, text[:500])


def decode(content: bytes, status: int, headers: Mapping[str, str], url: str) -> Any:
    if status == 204 or not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise unexpected(status, headers, content.decode(errors="replace"), url) from None


def raise_failure(content: bytes, status: int, headers: Mapping[str, str], url: str, has_key: bool) -> NoReturn:
    try:
        parsed: Any = json.loads(content)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise unexpected(status, headers, content.decode(errors="replace"), url)
    body = cast(Dict[str, Any], parsed)

    def text(name: str) -> Optional[str]:
        value = body.get(name)
        return value if isinstance(value, str) and value else None

    kind = text("type")
    code = text("code") or (kind and kind.rsplit("/", 1)[-1]) or text("error") or "unknown"
    error = PROBLEMS.get(code, ProblemError)(code, body, status, headers)
    if status == 401 and not has_key:
        error.args = (f"{error}. The client has no API key: set KITFLEET_API_KEY, or pass api_key",)
    raise error


def repeat_after(error: Exception) -> Optional[float]:
    """Seconds after which a request that may be repeated is repeated, or None if it fails."""
    if not isinstance(error, (ProblemError, UnexpectedResponseError)) or error.status not in (429, 503):
        return None
    after = error.retry_after
    return None if after is None or after > LONGEST_WAIT else after + random.random() / 4


def base_url(url: Optional[str]) -> str:
    url = (url or os.environ.get("KITFLEET_URL") or "http://127.0.0.1:8080").strip()
    parts = urllib.parse.urlsplit(url)
    try:
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        # The port is no number, or too large.
        is_valid = False
    if not is_valid:
        raise ValueError(f"The address of Kitfleet must be http or https: {url!r}")
    return url.rstrip("/")


def credential(api_key: Optional[str]) -> Optional[str]:
    key = api_key or os.environ.get("KITFLEET_API_KEY") or None
    if key is not None and not re.fullmatch(r"[\x21-\x7e]+", key):
        raise ValueError("The API key has characters that no key has, such as a space or a line break")
    return key


def check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not re.fullmatch(r"[\t\x20-\x7e]*", value):
            raise ValueError(f"The header {name} has characters that HTTP cannot carry")


def file_name(headers: Mapping[str, str]) -> Optional[str]:
    disposition = headers.get("content-disposition", "")
    extended = re.search(r"filename\*\s*=\s*UTF-8''([^;]+)", disposition, re.IGNORECASE)
    if extended:
        return urllib.parse.unquote(extended[1].strip())
    plain = re.search(r'filename\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^;\s]+))', disposition, re.IGNORECASE)
    if not plain:
        return None
    return re.sub(r"\\(.)", r"\1", plain[1]) if plain[1] is not None else plain[2]


class PartFile:
    """A file that exists under its name only once it is complete."""

    def __init__(self, path: "Union[str, os.PathLike[str]]") -> None:
        self.path = os.fspath(path)
        self.part = f"{self.path}.{random.getrandbits(40):x}.part"
        self.file: Optional[IO[bytes]] = None

    def __enter__(self) -> "IO[bytes]":
        self.file = open(self.part, "xb")
        return self.file

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.file is not None:
            self.file.close()
        if kind is None:
            os.replace(self.part, self.path)
        else:
            os.unlink(self.part)


def read_chunks(path: "os.PathLike[str]") -> Iterator[bytes]:
    with open(path, "rb") as file:
        while True:
            chunk = file.read(65_536)
            if not chunk:
                return
            yield chunk


def files_to_upload(files: Sequence[FileToUpload]) -> "List[params.UploadFile]":
    result: "List[params.UploadFile]" = []
    for file in files:
        if isinstance(file, tuple):
            name, content = file[0], file[1]
        else:
            path = os.fspath(file)
            name = os.path.basename(path)
            with open(path, "rb") as opened:
                content = opened.read()
        entry: "params.UploadFile" = {"name": name, "content": base64.b64encode(content).decode("ascii")}
        if isinstance(file, tuple) and len(file) == 3:
            entry["content_type"] = file[2]
        result.append(entry)
    return result


def extraction_list(extractions: Extractions) -> List[Dict[str, Any]]:
    result: List[Dict[str, Any]] = []
    for name, extraction in extractions.items():
        fields: Mapping[str, Any] = {"selector": extraction} if isinstance(extraction, str) else extraction
        result.append({"name": name, "type": "text", **fields})
    return result


def css_string(text: str) -> str:
    """A text as a string of CSS."""
    escaped = re.sub(r'["\\]', lambda match: "\\" + match[0], text)
    return '"' + re.sub(r"[\n\r\f]", lambda match: f"\\{ord(match[0]):x} ", escaped) + '"'


class ServerEvent:
    """One event of a stream."""

    def __init__(self, id: str, event: str, data: Dict[str, Any]) -> None:
        self.id = id
        self.event = event
        self.data = data

    def __repr__(self) -> str:
        return f"ServerEvent(id={self.id!r}, event={self.event!r}, data={self.data!r})"


class EventDecoder:
    """Reads server-sent events from the parts in which they arrive."""

    def __init__(self) -> None:
        self.pause: Optional[float] = None
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._id = ""
        self._event = ""
        self._data: List[str] = []

    def feed(self, part: bytes) -> List[ServerEvent]:
        self._rest += self._utf8.decode(part)
        # A carriage return at the end may be half of a line's end.
        lines = re.split(r"\r\n|\n|\r(?!\Z)", self._rest)
        self._rest = lines.pop()
        events: List[ServerEvent] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(ServerEvent(self._id, self._event or "message", self._parse("\n".join(self._data))))
                self._event, self._data = "", []
                continue
            name, _, text = line.partition(":")
            text = text[1:] if text.startswith(" ") else text
            if name == "data":
                self._data.append(text)
            elif name == "event":
                self._event = text
            elif name == "id" and "\0" not in text:
                self._id = text
            elif name == "retry" and text.isdigit():
                self.pause = int(text) / 1000
        return events

    @staticmethod
    def _parse(text: str) -> Dict[str, Any]:
        try:
            parsed: Any = json.loads(text)
        except ValueError:
            return {"text": text}
        return cast(Dict[str, Any], parsed) if isinstance(parsed, dict) else {"value": parsed}
