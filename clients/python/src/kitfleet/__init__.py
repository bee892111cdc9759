"""Client of Kitfleet: mobile browser sessions on real WebKit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

from ._common import OMIT, FileToUpload, Omit, RequestOptions, ResponseInfo, ServerEvent
from ._errors import KitfleetError, ProblemError
from ._version import VERSION as __version__

if TYPE_CHECKING:
    from . import errors, models, params
    from ._async._client import AsyncKitfleet
    from ._async._content import AsyncContent
    from ._async._handles import AsyncAgentSession, AsyncDownloadHandle, AsyncLocator, AsyncPageHandle, AsyncSession, AsyncTurn
    from ._async._pager import AsyncPage, AsyncPager
    from ._async._stream import AsyncEventStream
    from ._sync._client import Kitfleet
    from ._sync._content import Content
    from ._sync._handles import AgentSession, DownloadHandle, Locator, PageHandle, Session, Turn
    from ._sync._pager import Page
    from ._sync._stream import EventStream
    from ._webhooks import verify_webhook

_HANDLES = ["AgentSession", "DownloadHandle", "Locator", "PageHandle", "Session", "Turn"]
# A program uses one of the two clients, and loads only that one.
_LAZY = {
    "AsyncContent": "_async._content",
    "AsyncEventStream": "_async._stream",
    "AsyncKitfleet": "_async._client",
    "AsyncPage": "_async._pager",
    "AsyncPager": "_async._pager",
    "Content": "_sync._content",
    "EventStream": "_sync._stream",
    "Kitfleet": "_sync._client",
    "Page": "_sync._pager",
    "verify_webhook": "_webhooks",
    **{name: "_sync._handles" for name in _HANDLES},
    **{f"Async{name}": "_async._handles" for name in _HANDLES},
}


def __getattr__(name: str) -> Any:
    if name in ("errors", "models", "params"):
        return import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return list(__all__)


__all__ = [
    "OMIT",
    "AgentSession",
    "AsyncAgentSession",
    "AsyncContent",
    "AsyncDownloadHandle",
    "AsyncEventStream",
    "AsyncKitfleet",
    "AsyncLocator",
    "AsyncPage",
    "AsyncPageHandle",
    "AsyncPager",
    "AsyncSession",
    "AsyncTurn",
    "Content",
    "DownloadHandle",
    "EventStream",
    "FileToUpload",
    "Kitfleet",
    "KitfleetError",
    "Locator",
    "Omit",
    "Page",
    "PageHandle",
    "ProblemError",
    "RequestOptions",
    "ResponseInfo",
    "ServerEvent",
    "Session",
    "Turn",
    "__version__",
    "errors",
    "models",
    "params",
    "verify_webhook",
]
