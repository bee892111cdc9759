# Written from ../_async by clients/generate/generate.py. Do not edit.

"""Lists."""

from __future__ import annotations

from typing import Any, Iterator, Callable, Dict, Generic, List, Optional, TypeVar, cast

T = TypeVar("T")


class Page(Generic[T]):
    """One page of a list. Iterating over it yields its entries and those of all later pages."""

    def __init__(self, body: Dict[str, Any], fetch: Callable[[Optional[str]], Dict[str, Any]]) -> None:
        self.data: List[T] = cast("List[T]", body["data"])
        self.next_cursor: Optional[str] = body.get("next_cursor")
        self.has_more: bool = self.next_cursor is not None and body.get("has_more") is not False
        self.body = body
        """The whole answer, with members that only some lists have."""
        self._fetch = fetch

    def next_page(self) -> Optional[Page[T]]:
        """The next page, or None after the last one."""
        return Page(self._fetch(self.next_cursor), self._fetch) if self.has_more else None

    def __iter__(self) -> Iterator[T]:
        page: Optional[Page[T]] = self
        while page is not None:
            for entry in page.data:
                yield entry
            page = page.next_page()

    def all(self, limit: Optional[int] = None) -> List[T]:
        """All entries, or the first `limit`."""
        entries: List[T] = []
        for entry in self:
            if limit is not None and len(entries) >= limit:
                break
            entries.append(entry)
        return entries


