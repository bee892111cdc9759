"""Lists."""

from __future__ import annotations

from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Generator, Generic, List, Optional, TypeVar, cast

T = TypeVar("T")


class AsyncPage(Generic[T]):
    """One page of a list. Iterating over it yields its entries and those of all later pages."""

    def __init__(self, body: Dict[str, Any], fetch: Callable[[Optional[str]], Awaitable[Dict[str, Any]]]) -> None:
        self.data: List[T] = cast("List[T]", body["data"])
        self.next_cursor: Optional[str] = body.get("next_cursor")
        self.has_more: bool = self.next_cursor is not None and body.get("has_more") is not False
        self.body = body
        """The whole answer, with members that only some lists have."""
        self._fetch = fetch

    async def next_page(self) -> Optional[AsyncPage[T]]:
        """The next page, or None after the last one."""
        return AsyncPage(await self._fetch(self.next_cursor), self._fetch) if self.has_more else None

    async def __aiter__(self) -> AsyncIterator[T]:
        page: Optional[AsyncPage[T]] = self
        while page is not None:
            for entry in page.data:
                yield entry
            page = await page.next_page()

    # sync: def all(self, limit: Optional[int] = None) -> List[T]:
    # sync:     """All entries, or the first `limit`."""
    # sync:     entries: List[T] = []
    # sync:     for entry in self:
    # sync:         if limit is not None and len(entries) >= limit:
    # sync:             break
    # sync:         entries.append(entry)
    # sync:     return entries


# async only
class AsyncPager(Generic[T]):
    """A list: `await` it for its first page, or iterate over all entries with `async for`."""

    def __init__(self, fetch: Callable[[Optional[str]], Awaitable[Dict[str, Any]]]) -> None:
        self._fetch = fetch

    async def _first(self) -> AsyncPage[T]:
        return AsyncPage(await self._fetch(None), self._fetch)

    def __await__(self) -> Generator[Any, None, AsyncPage[T]]:
        return self._first().__await__()

    async def __aiter__(self) -> AsyncIterator[T]:
        async for entry in await self._first():
            yield entry

    async def all(self, limit: Optional[int] = None) -> List[T]:
        """All entries, or the first `limit`."""
        entries: List[T] = []
        async for entry in self:
            if limit is not None and len(entries) >= limit:
                break
            entries.append(entry)
        return entries


# end
