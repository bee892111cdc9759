"""Base class of results, and the registry of the classes."""

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
        return data[name] if nested is None else _registries[0].wrap(nested, data[name])

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


class Registry:
    """The classes of `models`, by their names."""

    def __init__(
        self,
        names: Mapping[str, Any],
        unions: Mapping[str, Tuple[Optional[str], Mapping[str, str]]],
        required: Mapping[str, Tuple[str, ...]],
    ) -> None:
        self._names = names
        self._unions = unions
        self._required = required
        _registries.append(self)

    def wrap(self, name: str, value: Any) -> Any:
        """`value` as the model `name`; `{name` is a map of them, and `a|b` one of several."""
        given: Any = value
        if isinstance(value, list):
            return [self.wrap(name, item) for item in cast("List[Any]", given)]
        if not isinstance(value, dict):
            return value
        data = cast(Json, given)
        if name.startswith("{"):
            return {key: self.wrap(name[1:], item) for key, item in data.items()}
        found = self._class(name, data)
        return data if found is None else found(data)

    def _class(self, name: str, data: Json) -> Optional[Type[Model]]:
        member: Optional[str] = None
        if "|" in name:
            candidates: Mapping[str, str] = {candidate: candidate for candidate in name.split("|")}
        else:
            union = self._unions.get(name)
            if union is None:
                found = self._names.get(name)
                return found if isinstance(found, type) and issubclass(found, Model) else None
            member, candidates = union
        if member is not None:
            chosen = candidates.get(data.get(member, ""))
            return None if chosen is None else self._class(chosen, data)
        for candidate in candidates.values():
            if all(key in data for key in self._required.get(candidate, ())):
                return self._class(candidate, data)
        return None


# Models are in one module, so that there is one registry: it is there before any of their objects.
_registries: List[Registry] = []
