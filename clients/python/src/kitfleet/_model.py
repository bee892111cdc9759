"""Base class of results."""

from typing import Any, ClassVar, Dict, Iterator, List, Mapping, Optional, Tuple, Type, cast

Json = Dict[str, Any]


class Model:
    """An object of the API. Members are attributes, also those that this version of the package does not know."""

    _nested: ClassVar[Mapping[str, str]] = {}
    _optional: ClassVar[Tuple[str, ...]] = ()
    _data: Json

    def __init__(self, data: Json) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:
        # Called only for names that are no attributes.
        if name.startswith("_"):
            raise AttributeError(name)
        data = self._data
        if name not in data:
            if name.endswith("_") and name[:-1] in data:
                return self.__getattr__(name[:-1])
            if name in self._optional:
                return None
            raise AttributeError(f"{type(self).__name__} has no member {name}")
        nested = self._nested.get(name)
        return data[name] if nested is None else wrap(nested, data[name])

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __dir__(self) -> Iterator[str]:
        return iter([*super().__dir__(), *self._data])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and type(other) is type(self) and other._data == self._data

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._data.items())})"

    def to_dict(self) -> Json:
        """The object as the service sent it."""
        return self._data


def wrap(name: str, value: Any) -> Any:
    """`value` as the model `name`; `{name` is a map of them, and `a|b` one of several."""
    given: Any = value
    if isinstance(value, list):
        return [wrap(name, item) for item in cast("List[Any]", given)]
    if not isinstance(value, dict):
        return value
    data = cast(Json, given)
    if name.startswith("{"):
        return {key: wrap(name[1:], item) for key, item in data.items()}
    found = _class(name, data)
    return data if found is None else found(data)


def _class(name: str, data: Json) -> Optional[Type[Model]]:
    from . import models

    if "|" in name:
        candidates = {candidate: candidate for candidate in name.split("|")}
        member = None
    else:
        union = models.UNIONS.get(name)
        if union is None:
            found = getattr(models, name, None)
            return found if isinstance(found, type) and issubclass(found, Model) else None
        member, candidates = union
    if member is not None:
        chosen = candidates.get(data.get(member, ""))
        return None if chosen is None else _class(chosen, data)
    for candidate in candidates.values():
        if all(key in data for key in models.REQUIRED.get(candidate, ())):
            return _class(candidate, data)
    return None
