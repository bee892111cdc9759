# Written from ../_async by clients/generate/generate.py. Do not edit.

"""Sessions, elements, pages, downloads and agent sessions."""

from __future__ import annotations

import base64
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, List, Literal, Mapping, Optional, Sequence, Type, Union, cast

from .. import models
from .._common import (
    Extractions,
    FileToUpload,
    PartFile,
    RequestOptions,
    css_string,
    extraction_list,
    files_to_upload,
    given,
    quote,
)
from .._errors import KitfleetError, ScriptError
from .._problems import NotFoundError, SessionDestroyedError

if TYPE_CHECKING:
    from .. import params
    from ._content import Content
    from ._core import Core
    from ._pager import Page
    from ._stream import EventStream

Path = Union[str, "os.PathLike[str]"]


class Locator:
    """An element of the active page, found anew by each action."""

    def __init__(self, session: Session, element: Dict[str, Any]) -> None:
        self._session = session
        self.element = element
        """Members that name the element in a request."""

    def _act(self, kind: str, fields: Dict[str, Any], timeout_ms: Optional[int], on_timeout: Optional[params.OnTimeout], options: Optional[RequestOptions]) -> models.Interacted:
        return self._session.interact(
            cast("params.Action", {"kind": kind, **self.element, **fields}), timeout_ms=timeout_ms, on_timeout=on_timeout, options=options
        )

    def tap(
        self,
        *,
        at: Optional[params.Point] = None,
        count: Optional[int] = None,
        hold_ms: Optional[int] = None,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        return self._act("tap", given({"at": at, "count": count, "hold_ms": hold_ms}, {}), timeout_ms, on_timeout, options)

    def type(
        self,
        text: str,
        *,
        delay_ms: Optional[int] = None,
        sensitive: Optional[bool] = None,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        """Types after the text that is there."""
        return self._act("type", given({"delay_ms": delay_ms, "sensitive": sensitive}, {"text": text}), timeout_ms, on_timeout, options)

    def fill(
        self, value: str, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Interacted:
        """Replaces the content of a field."""
        return self._act("fill", {"value": value}, timeout_ms, on_timeout, options)

    def clear(
        self, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Interacted:
        return self._act("clear", {}, timeout_ms, on_timeout, options)

    def check(
        self, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Interacted:
        return self._act("check", {"checked": True}, timeout_ms, on_timeout, options)

    def uncheck(
        self, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Interacted:
        return self._act("check", {"checked": False}, timeout_ms, on_timeout, options)

    def select(
        self,
        option: Union[str, Sequence[str]],
        *,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        """Chooses options of a `<select>` by their text or value."""
        fields: Dict[str, Any] = {"option": option} if isinstance(option, str) else {"options": list(option)}
        return self._act("select", fields, timeout_ms, on_timeout, options)

    def hover(
        self,
        *,
        at: Optional[params.Point] = None,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        """Moves the mouse over the element without pressing."""
        return self._act("hover", given({"at": at}, {}), timeout_ms, on_timeout, options)

    def drag(
        self,
        to: Union[Locator, Sequence[params.Point]],
        *,
        at: Optional[params.Point] = None,
        pointer: Optional[params.PointerKind] = None,
        duration_ms: Optional[int] = None,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        """Drags to another element, or along a path of points."""
        fields = given({"pointer": pointer, "duration_ms": duration_ms}, {})
        if isinstance(to, Locator):
            fields["to"] = given({"at": at}, to.element)
        else:
            fields["path"] = list(to)
        return self._act("drag", fields, timeout_ms, on_timeout, options)

    def swipe(
        self,
        direction: params.SwipeDirection,
        *,
        distance: Optional[int] = None,
        duration_ms: Optional[int] = None,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        fields = given({"distance": distance, "duration_ms": duration_ms}, {"direction": direction})
        return self._act("swipe", fields, timeout_ms, on_timeout, options)

    def scroll(
        self,
        delta_x: int,
        delta_y: int,
        *,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        """Scrolls the element by CSS pixels."""
        return self._act("scroll", {"delta_x": delta_x, "delta_y": delta_y}, timeout_ms, on_timeout, options)

    def upload(
        self,
        *files: FileToUpload,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        """Gives files to a file input, or to the chooser that a tap on the element opens."""
        return self._act("upload", {"files": files_to_upload(files)}, timeout_ms, on_timeout, options)

    def screenshot(
        self,
        *,
        format: Optional[params.ImageFormat] = None,
        quality: Optional[int] = None,
        scale: Optional[params.CaptureScale] = None,
        path: Optional[Path] = None,
        options: Optional[RequestOptions] = None,
    ) -> bytes:
        fields = given({"format": format, "quality": quality, "scale": scale}, self.element)
        return self._session.capture("screenshot", fields, path=path, options=options)

    def wait_for(
        self,
        state: Literal["visible", "hidden"] = "visible",
        *,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Waited:
        """Waits until the element is visible, or hidden."""
        kind = "selector_hidden" if state == "hidden" else "selector"
        condition = cast("params.Condition", {"kind": kind, **self.element})
        return self._session.wait(condition, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def _extract(self, fields: Dict[str, Any], options: Optional[RequestOptions]) -> Any:
        return (self._session.extract({"value": {**self.element, **fields}}, options=options)).get("value")

    def text(self, *, options: Optional[RequestOptions] = None) -> Optional[str]:
        """The text of the element, or None without one."""
        return cast("Optional[str]", self._extract({"type": "text"}, options))

    def number(self, *, options: Optional[RequestOptions] = None) -> Optional[float]:
        """The number in the text of the element."""
        return cast("Optional[float]", self._extract({"type": "text", "transform": "number"}, options))

    def value(self, *, options: Optional[RequestOptions] = None) -> Optional[str]:
        """What a field holds."""
        return cast("Optional[str]", self._extract({"type": "value"}, options))

    def attribute(self, name: str, *, options: Optional[RequestOptions] = None) -> Optional[str]:
        return cast("Optional[str]", self._extract({"type": "attribute", "attribute": name}, options))

    def box(self, *, options: Optional[RequestOptions] = None) -> Optional[Dict[str, float]]:
        """Position and size in CSS pixels of the viewport."""
        return cast("Optional[Dict[str, float]]", self._extract({"type": "box"}, options))


class PageHandle(models.SessionPage):
    """A page (tab) of a session."""

    def __init__(self, session: Session, data: Dict[str, Any]) -> None:
        super().__init__(data)
        self._session = session

    def activate(self, *, options: Optional[RequestOptions] = None) -> None:
        """Makes this the page that operations act on."""
        self._data = self._session.request("POST", f"/pages/{quote(self.id)}/activate", options, retryable=True)

    def close(self, *, options: Optional[RequestOptions] = None) -> None:
        self._session.request("DELETE", f"/pages/{quote(self.id)}", options, retryable=True)


class DownloadHandle(models.Download):
    """A file that a page has downloaded. One that `wait_for_download` returns has `id` and `file_name` only; the rest is None."""

    _optional = ("bytes", "content_type", "created_at", "error", "status", "url")

    def __init__(self, session: Session, data: Dict[str, Any]) -> None:
        super().__init__(data)
        self._session = session

    def content(self, *, options: Optional[RequestOptions] = None) -> Content:
        """The content, as it arrives. A download in progress is waited for."""
        return self._session.content(f"/downloads/{quote(self.id)}/content", options)

    def save(self, path: Path, *, options: Optional[RequestOptions] = None) -> None:
        (self.content(options=options)).save(path)

    def read(self, *, options: Optional[RequestOptions] = None) -> bytes:
        return (self.content(options=options)).read()


class Session(models.Session):
    """A browser session. It ends with `close`, or at the end of a `with` block."""

    def __init__(self, core: Core, data: Dict[str, Any]) -> None:
        super().__init__(data)
        self._core = core

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self.close()
        except KitfleetError:
            # The error of the block is the one to see.
            if kind is None:
                raise

    def request(
        self, method: str, path: str, options: Optional[RequestOptions] = None, *, json: Any = None, query: Optional[Mapping[str, Any]] = None, retryable: bool = False, model: Optional[str] = None
    ) -> Any:
        """A request below the session's own path."""
        return self._core.call(method, f"/v1/sessions/{quote(self.id)}{path}", options, json=json, query=query, retryable=retryable, model=model)

    def content(self, path: str, options: Optional[RequestOptions] = None, query: Optional[Mapping[str, Any]] = None) -> Content:
        """A file below the session's own path."""
        return self._core.content("GET", f"/v1/sessions/{quote(self.id)}{path}", options, query=query, retryable=True)

    def refresh(self, *, options: Optional[RequestOptions] = None) -> Session:
        """Reads the session's status again."""
        self._data = self.request("GET", "", options, retryable=True)
        return self

    def close(self, *, options: Optional[RequestOptions] = None) -> None:
        """Destroys the session. One that has ended already is no error."""
        try:
            self.request("DELETE", "", options, retryable=True)
        except (SessionDestroyedError, NotFoundError):
            pass

    # Elements

    def locator(self, selector: str) -> Locator:
        """The element that a CSS selector matches; ` >>> ` enters a frame."""
        return Locator(self, {"selector": selector})

    def get_by_role(self, role: params.ElementRole, *, name: Optional[str] = None, exact: Optional[bool] = None) -> Locator:
        return Locator(self, {"target": given({"name": name, "exact": exact}, {"role": role})})

    def get_by_text(self, text: str, *, exact: Optional[bool] = None) -> Locator:
        return Locator(self, {"target": given({"exact": exact}, {"text": text})})

    def get_by_label(self, label: str, *, exact: Optional[bool] = None) -> Locator:
        return Locator(self, {"target": given({"exact": exact}, {"label": label})})

    def get_by_placeholder(self, placeholder: str, *, exact: Optional[bool] = None) -> Locator:
        return Locator(self, {"target": given({"exact": exact}, {"placeholder": placeholder})})

    def get_by_test_id(self, test_id: str) -> Locator:
        """The element whose attribute `data-testid` is `test_id`."""
        return self.locator(f"[data-testid={css_string(test_id)}]")

    def get_by_ref(self, ref: str) -> Locator:
        """The element with a `ref` of a snapshot."""
        return Locator(self, {"target": {"ref": ref}})

    # Navigating and acting

    def navigate(
        self,
        url: str,
        *,
        wait_until: Optional[params.WaitUntil] = None,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        on_failure: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Navigated:
        body = given({"wait_until": wait_until, "timeout_ms": timeout_ms, "on_timeout": on_timeout, "on_failure": on_failure}, {"url": url})
        return cast(models.Navigated, self.request("POST", "/navigate", options, json=body, model="Navigated"))

    def interact(
        self,
        action: params.Action,
        *,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        body = given({"timeout_ms": timeout_ms, "on_timeout": on_timeout}, {"action": action})
        return cast(models.Interacted, self.request("POST", "/interact", options, json=body, model="Interacted"))

    def back(self, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None) -> models.Interacted:
        return self.interact({"kind": "back"}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def forward(self, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None) -> models.Interacted:
        return self.interact({"kind": "forward"}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def reload(self, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None) -> models.Interacted:
        return self.interact({"kind": "reload"}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def press(
        self, key: str, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Interacted:
        """Presses a key with its modifiers, such as `Shift+Tab`, on the element with the focus."""
        return self.interact({"kind": "press", "key": key}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def tap_at(
        self, x: float, y: float, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Interacted:
        """Taps a point of the viewport."""
        return self.interact({"kind": "tap", "at": {"x": x, "y": y}}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def swipe(
        self,
        direction: params.SwipeDirection,
        *,
        distance: Optional[int] = None,
        duration_ms: Optional[int] = None,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        action = given({"distance": distance, "duration_ms": duration_ms}, {"kind": "swipe", "direction": direction})
        return self.interact(cast("params.Action", action), timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def scroll(
        self,
        delta_x: int,
        delta_y: int,
        *,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        action: params.ScrollAction = {"kind": "scroll", "delta_x": delta_x, "delta_y": delta_y}
        return self.interact(action, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def upload(
        self,
        *files: FileToUpload,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Interacted:
        """Gives files to the chooser that the last tap has opened."""
        action: params.UploadAction = {"kind": "upload", "files": files_to_upload(files)}
        return self.interact(action, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def accept_dialog(self, text: Optional[str] = None, *, timeout_ms: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.Interacted:
        action = given({"text": text}, {"kind": "dialog", "accept": True})
        return self.interact(cast("params.Action", action), timeout_ms=timeout_ms, options=options)

    def dismiss_dialog(self, *, timeout_ms: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.Interacted:
        return self.interact({"kind": "dialog", "accept": False}, timeout_ms=timeout_ms, options=options)

    def search(
        self,
        query: str,
        *,
        search_selector: Optional[str] = None,
        submit: Optional[bool] = None,
        wait_for_results_selector: Optional[str] = None,
        timeout_seconds: Optional[int] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.SearchResult:
        fields = {"search_selector": search_selector, "submit": submit, "wait_for_results_selector": wait_for_results_selector, "timeout_seconds": timeout_seconds}
        return cast(models.SearchResult, self.request("POST", "/search", options, json=given(fields, {"query": query}), model="SearchResult"))

    def login(
        self,
        username: str,
        password: str,
        *,
        username_selector: Optional[str] = None,
        password_selector: Optional[str] = None,
        submit_selector: Optional[str] = None,
        success_selector: Optional[str] = None,
        timeout_seconds: Optional[int] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.LoginResult:
        fields = {
            "username_selector": username_selector,
            "password_selector": password_selector,
            "submit_selector": submit_selector,
            "success_selector": success_selector,
            "timeout_seconds": timeout_seconds,
        }
        body = given(fields, {"username": username, "password": password})
        return cast(models.LoginResult, self.request("POST", "/login", options, json=body, model="LoginResult"))

    # Waiting

    def wait(
        self,
        condition: params.Condition,
        *,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Waited:
        body = given({"timeout_ms": timeout_ms, "on_timeout": on_timeout}, {"condition": condition})
        return cast(models.Waited, self.request("POST", "/wait", options, json=body, retryable=True, model="Waited"))

    def wait_for_selector(
        self, selector: str, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Waited:
        return self.wait({"kind": "selector", "selector": selector}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def wait_for_url(
        self, pattern: str, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Waited:
        """Waits until the address matches a regular expression."""
        return self.wait({"kind": "url_matches", "pattern": pattern}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def wait_for_text(
        self, text: str, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Waited:
        return self.wait({"kind": "text", "text": text}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def wait_for_function(
        self, script: str, *, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> models.Waited:
        """Waits until the body of an async function returns something truthy."""
        return self.wait({"kind": "function", "script": script}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def wait_for_response(
        self,
        url_pattern: str,
        *,
        status: Optional[int] = None,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Waited:
        condition = cast("params.Condition", given({"status": status}, {"kind": "response", "url_pattern": url_pattern}))
        return self.wait(condition, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def wait_for_load_state(
        self,
        state: params.WaitUntil = "load",
        *,
        timeout_ms: Optional[int] = None,
        on_timeout: Optional[params.OnTimeout] = None,
        options: Optional[RequestOptions] = None,
    ) -> models.Waited:
        return self.wait({"kind": "load_state", "state": state}, timeout_ms=timeout_ms, on_timeout=on_timeout, options=options)

    def wait_for_time(self, milliseconds: int, *, options: Optional[RequestOptions] = None) -> models.Waited:
        return self.wait({"kind": "time", "ms": milliseconds}, options=options)

    def wait_for_page(self, *, timeout_ms: Optional[int] = None, options: Optional[RequestOptions] = None) -> PageHandle:
        """Waits for a page that the previous operation opened, or that opens now, and returns the active page."""
        self.wait({"kind": "page"}, timeout_ms=timeout_ms, options=options)
        pages = self.pages(options=options)
        return next((page for page in pages if page.active), pages[-1])

    def wait_for_download(self, *, timeout_ms: Optional[int] = None, options: Optional[RequestOptions] = None) -> DownloadHandle:
        """Waits for a download that the previous operation began, or that begins now."""
        waited = self.wait({"kind": "download"}, timeout_ms=timeout_ms, options=options)
        if waited.download is None:
            raise KitfleetError("No download began")
        return DownloadHandle(self, waited.download.to_dict())

    # Reading

    def evaluate(
        self, script: str, *args: Any, timeout_ms: Optional[int] = None, on_timeout: Optional[params.OnTimeout] = None, options: Optional[RequestOptions] = None
    ) -> Any:
        """Runs the body of an async function in the page and returns its value; its arguments are `args`."""
        body = given({"timeout_ms": timeout_ms, "on_timeout": on_timeout}, {"script": script, "args": list(args)})
        result = self.request("POST", "/evaluate", options, json=body)
        exception = result.get("exception")
        if exception:
            raise ScriptError(exception["name"], exception["message"], exception.get("line"))
        return result["value"]

    def extract(self, extractions: Extractions, *, options: Optional[RequestOptions] = None) -> Dict[str, Any]:
        """Extracts values: `{"title": "h1", "price": {"selector": ".price", "transform": "number"}}`."""
        result = self.request("POST", "/extract", options, json={"extractions": extraction_list(extractions)}, retryable=True)
        return cast("Dict[str, Any]", result["value"] or {})

    def snapshot(self, fields: Optional[Mapping[str, Any]] = None, *, options: Optional[RequestOptions] = None) -> models.PageSnapshot:
        """The accessible elements of the page, as text."""
        return cast(models.PageSnapshot, self.request("POST", "/snapshot", options, json=dict(fields or {}), retryable=True, model="PageSnapshot"))

    def state(self, *, options: Optional[RequestOptions] = None) -> models.SessionState:
        return cast(models.SessionState, self.request("GET", "/state", options, retryable=True, model="SessionState"))

    def screenshot(
        self,
        *,
        full_page: Optional[bool] = None,
        reveal: Optional[bool] = None,
        format: Optional[params.ImageFormat] = None,
        quality: Optional[int] = None,
        scale: Optional[params.CaptureScale] = None,
        path: Optional[Path] = None,
        options: Optional[RequestOptions] = None,
    ) -> bytes:
        """A picture of the viewport or the whole page, which is also written to `path`."""
        fields = given({"full_page": full_page, "reveal": reveal, "format": format, "quality": quality, "scale": scale}, {})
        return self.capture("screenshot", fields, path=path, options=options)

    def pdf(
        self,
        *,
        paper: Optional[params.Paper] = None,
        landscape: Optional[bool] = None,
        margins: Optional[params.Margins] = None,
        background: Optional[bool] = None,
        path: Optional[Path] = None,
        options: Optional[RequestOptions] = None,
    ) -> bytes:
        fields = given({"paper": paper, "landscape": landscape, "margins": margins, "background": background}, {})
        return self.capture("pdf", fields, path=path, options=options)

    def html(self, *, options: Optional[RequestOptions] = None) -> str:
        """The document as HTML."""
        return (self.capture("dom_snapshot", {}, options=options)).decode()

    def capture(
        self, kind: params.CaptureKind, fields: Mapping[str, Any], *, path: Optional[Path] = None, options: Optional[RequestOptions] = None
    ) -> bytes:
        captured = self.request("POST", "/capture", options, json={"kind": kind, **fields}, retryable=True)
        content: str = captured["content"]
        data = base64.b64decode(content) if captured["encoding"] == "base64" else content.encode()
        if path is not None:
            with PartFile(path) as file:
                file.write(data)
        return data

    # Pages, downloads, cookies, emulation

    def pages(self, *, options: Optional[RequestOptions] = None) -> List[PageHandle]:
        return [PageHandle(self, page) for page in (self.request("GET", "/pages", options, retryable=True))["data"]]

    def open_page(self, url: Optional[str] = None, *, options: Optional[RequestOptions] = None) -> PageHandle:
        return PageHandle(self, self.request("POST", "/pages", options, json=given({"url": url}, {})))

    def downloads(self, *, options: Optional[RequestOptions] = None) -> List[DownloadHandle]:
        return [DownloadHandle(self, entry) for entry in (self.request("GET", "/downloads", options, retryable=True))["data"]]

    def cookies(self, *, options: Optional[RequestOptions] = None) -> List[Dict[str, Any]]:
        return cast("List[Dict[str, Any]]", (self.request("GET", "/cookies", options, retryable=True))["data"])

    def set_cookies(self, cookies: Sequence[params.SessionCookieSet], *, options: Optional[RequestOptions] = None) -> None:
        self.request("PUT", "/cookies", options, json={"cookies": list(cookies)}, retryable=True)

    def clear_cookies(
        self, *, name: Optional[str] = None, domain: Optional[str] = None, path: Optional[str] = None, options: Optional[RequestOptions] = None
    ) -> None:
        """Deletes the cookies that match all given members, or all cookies."""
        self.request("DELETE", "/cookies", options, query={"name": name, "domain": domain, "path": path}, retryable=True)

    def emulate(self, changes: params.SessionEmulationUpdate, *, options: Optional[RequestOptions] = None) -> models.SessionEmulation:
        """Changes the emulation; None resets a member."""
        return cast(models.SessionEmulation, self.request("PATCH", "/emulation", options, json=changes, retryable=True, model="SessionEmulation"))

    def resolve_challenge(self, challenge_id: str, *, options: Optional[RequestOptions] = None) -> models.ResolvedChallenge:
        path = f"/challenges/{quote(challenge_id)}/resolve"
        return cast(models.ResolvedChallenge, self.request("POST", path, options, retryable=True, model="ResolvedChallenge"))

    # Watching

    def live_ticket(
        self, *, role: Optional[params.LiveRole] = None, client_id: Optional[str] = None, options: Optional[RequestOptions] = None
    ) -> models.LiveTicket:
        """A ticket to watch or to control the session once."""
        body = given({"role": role, "client_id": client_id}, {})
        return cast(models.LiveTicket, self.request("POST", "/live-tickets", options, json=body, model="LiveTicket"))

    def live_link(self, *, expires_in: Optional[int] = None, options: Optional[RequestOptions] = None) -> models.NewlyMadeLiveLink:
        """A link to watch the session, for people without an account."""
        body = given({"expires_in": expires_in}, {})
        return cast(models.NewlyMadeLiveLink, self.request("POST", "/live-links", options, json=body, model="NewlyMadeLiveLink"))

    # The record of the session

    def _list(self, path: str, options: Optional[RequestOptions]) -> Page[Dict[str, Any]]:
        return self._core.page(f"/v1/sessions/{quote(self.id)}{path}", options, retryable=True)

    def operations(self, *, options: Optional[RequestOptions] = None) -> Page[Dict[str, Any]]:
        """Operations of the session, newest first."""
        return self._list("/operations", options)

    def timeline(self, *, options: Optional[RequestOptions] = None) -> Page[Dict[str, Any]]:
        """Events of the session, oldest first."""
        return self._list("/timeline", options)

    def timeline_stream(self, *, last_event_id: Optional[str] = None, options: Optional[RequestOptions] = None) -> EventStream:
        """Events of the session as they happen, until it ends."""
        return self._core.events(f"/v1/sessions/{quote(self.id)}/timeline", options, query={"last_event_id": last_event_id})

    def console(self, *, options: Optional[RequestOptions] = None) -> Page[Dict[str, Any]]:
        return self._list("/console", options)

    def requests(self, *, options: Optional[RequestOptions] = None) -> Page[Dict[str, Any]]:
        return self._list("/requests", options)

    def frame(self, seq: int, *, options: Optional[RequestOptions] = None) -> bytes:
        """The picture (JPEG) of an event of the type `frame`."""
        return (self.content(f"/frames/{seq}", options)).read()

    def har(self, *, options: Optional[RequestOptions] = None) -> Dict[str, Any]:
        return cast("Dict[str, Any]", (self.content("/har", options)).json())

    def trace(self, path: Path, *, format: Optional[int] = None, options: Optional[RequestOptions] = None) -> None:
        """Writes the trace, which Playwright's viewer opens, to a file."""
        (self.content("/trace", options, {"format": format})).save(path)

    def trace_link(self, *, expires_in: Optional[int] = None, options: Optional[RequestOptions] = None) -> Dict[str, Any]:
        """A link to the trace that needs no credential."""
        return cast("Dict[str, Any]", self.request("POST", "/trace-links", options, json=given({"expires_in": expires_in}, {})))

    def delete_recording(self, *, options: Optional[RequestOptions] = None) -> None:
        self.request("DELETE", "/recording", options, retryable=True)


class Turn(models.AgentTurn):
    """The outcome of a message to an agent session."""

    def __init__(self, agent: AgentSession, data: Dict[str, Any]) -> None:
        super().__init__(data)
        self._agent = agent

    @property
    def waiting(self) -> List[models.AgentIntent]:
        """Steps that wait for approval."""
        return [intent for intent in self.intents if intent.status == "needs_approval"]

    @property
    def results(self) -> List[Any]:
        """Results of the steps that were carried out."""
        return [intent.result for intent in self.intents if intent.status == "done"]

    def approve(self, message: str = "approved", *, options: Optional[RequestOptions] = None) -> Turn:
        """Approves the steps that wait, and continues the plan."""
        return self._agent.send(message, approvals=[intent.id for intent in self.waiting], options=options)


class AgentSession(models.AgentSession):
    """A browser that messages drive. It ends with `close`, or at the end of a `with` block."""

    def __init__(self, core: Core, data: Dict[str, Any]) -> None:
        super().__init__(data)
        self._core = core

    def __enter__(self) -> AgentSession:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self.close()
        except KitfleetError:
            if kind is None:
                raise

    def _request(
        self, method: str, path: str, options: Optional[RequestOptions], *, json: Any = None, query: Optional[Mapping[str, Any]] = None, retryable: bool = False, slow: bool = False
    ) -> Any:
        return self._core.call(method, f"/v1/agent-sessions/{quote(self.id)}{path}", options, json=json, query=query, retryable=retryable, slow=slow)

    def refresh(self, *, options: Optional[RequestOptions] = None) -> AgentSession:
        self._data = self._request("GET", "", options, retryable=True)
        return self

    def close(self, *, purge: Optional[bool] = None, options: Optional[RequestOptions] = None) -> None:
        """Closes the agent session; `purge` deletes it with its transcript. One that has ended already is no error."""
        try:
            self._request("DELETE", "", options, query={"purge": purge}, retryable=True)
        except (SessionDestroyedError, NotFoundError):
            pass

    def send(self, message: str, *, approvals: Optional[Sequence[str]] = None, options: Optional[RequestOptions] = None) -> Turn:
        """Sends a message, and returns when its turn has ended."""
        body = given({"approvals": approvals and list(approvals)}, {"message": message})
        return Turn(self, self._request("POST", "/message", options, json=body, slow=True))

    def session(self, *, options: Optional[RequestOptions] = None) -> Session:
        """The browser that the messages drive."""
        data = self._core.call("GET", f"/v1/sessions/{quote(self.session_id)}", options, retryable=True)
        return Session(self._core, data)

    def transcript(self, *, options: Optional[RequestOptions] = None) -> Page[models.AgentTranscriptEntry]:
        return self._core.page(f"/v1/agent-sessions/{quote(self.id)}/transcript", options, retryable=True, model="AgentTranscriptEntry")

    def upload(self, file: FileToUpload, *, options: Optional[RequestOptions] = None) -> models.AgentFile:
        """Keeps a file for the step `upload "NAME" into ELEMENT`."""
        return models.AgentFile(self._request("POST", "/files", options, json=files_to_upload([file])[0]))

    def set_mode(self, mode: params.AgentSessionMode, *, options: Optional[RequestOptions] = None) -> AgentSession:
        self._data = self._request("POST", "/mode", options, json={"mode": mode})
        return self

    def take_over(self, client_id: str, *, options: Optional[RequestOptions] = None) -> AgentSession:
        """A person drives from now on, until `hand_back`."""
        self._data = self._request("POST", "/takeover", options, json={"client_id": client_id})
        return self

    def hand_back(self, client_id: str, *, options: Optional[RequestOptions] = None) -> AgentSession:
        self._data = self._request("POST", "/handback", options, json={"client_id": client_id})
        return self

    def heartbeat(self, client_id: str, *, options: Optional[RequestOptions] = None) -> AgentSession:
        self._data = self._request("POST", "/heartbeat", options, json={"client_id": client_id})
        return self

    def cancel(self, *, options: Optional[RequestOptions] = None) -> Any:
        """Ends the running turn after its current step."""
        return self._request("POST", "/cancel", options)

    def save_recipe(self, label: str, *, options: Optional[RequestOptions] = None) -> models.Recipe:
        """Saves the steps that were carried out as a recipe."""
        body = {"agent_session_id": self.id, "label": label}
        return cast(models.Recipe, self._core.call("POST", "/v1/recipes", options, json=body, model="Recipe"))
