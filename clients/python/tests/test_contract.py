"""That the SDKs cover the contract: every operation for customers, every problem, every list."""

import functools
import importlib
import inspect
import json
import pathlib
import re
import unittest
from typing import Any, Callable, Dict, Iterator, Set, Tuple
from unittest import mock

from fake import Fake, answer, problem

import kitfleet
from kitfleet import Kitfleet, errors
from kitfleet._problems import PROBLEMS

ROOT = pathlib.Path(__file__).resolve().parents[3]
DOCUMENT: Dict[str, Any] = json.loads((ROOT / "openapi.json").read_text())
# Operations for the provider of the service, and for the programs of payment providers.
NOT_FOR_CUSTOMERS = {"takeCardEvent", "takeCryptoNotice", "registerMacNode"}


def customer_operations() -> Dict[str, Tuple[str, str, Dict[str, Any]]]:
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method != "parameters" and not path.startswith("/v1/admin/") and operation["operationId"] not in NOT_FOR_CUSTOMERS
    }


def methods(resource: Any) -> Dict[str, Any]:
    found = {}
    for name, value in vars(resource).items():
        if type(value).__name__.endswith("Resource"):
            found.update(methods(value))
    for name, method in inspect.getmembers(resource, inspect.ismethod):
        if not name.startswith("_"):
            found[f"{type(resource).__name__}.{name}"] = method
    return found


def example(annotation: str) -> Any:
    return {"str": "x", "int": 1, "bool": True, "float": 1.0}.get(annotation, [] if "Sequence" in annotation else b"{}" if "UploadBody" in annotation else {})


def cursor(operation: Dict[str, Any]) -> bool:
    return any(parameter.get("$ref", "").endswith("/Cursor") or parameter.get("name") == "cursor" for parameter in operation.get("parameters", []))


def operation_of(method: str, path: str) -> str:
    """The ID of the operation that a request is."""
    for operation, (verb, template, _) in customer_operations().items():
        if verb == method and re.fullmatch(re.sub(r"\\\{[^}]+\\\}", "[^/]+", re.escape(template)), path):
            return operation
    raise AssertionError(f"no operation of the contract is {method} {path}")


def calls(client: Kitfleet) -> Iterator[Tuple[str, Callable[[], Any]]]:
    """Every method of the resources and of the objects that they return, with arguments of the right kinds."""
    core: Any = client._core
    session = kitfleet.Session(core, {"id": "ses_1"})
    agent = kitfleet.AgentSession(core, {"id": "agt_1", "session_id": "ses_1"})
    owners = [session, session.locator("#a"), agent, kitfleet.Turn(agent, {"intents": []})]
    owners += [kitfleet.PageHandle(session, {"id": "page_1"}), kitfleet.DownloadHandle(session, {"id": "dl_1"})]
    found = {f"{type(owner).__name__}.{name}": method for owner in owners for name, method in inspect.getmembers(owner, inspect.ismethod) if not name.startswith("_")}
    for resource in vars(client).values():
        if type(resource).__name__.endswith("Resource"):
            found.update(methods(resource))
    for name, method in found.items():
        parameters = inspect.signature(method).parameters
        if "options" not in parameters or name == "Session.request":
            # Locators, conversions, and requests that are given.
            continue
        arguments = {
            key: "arg" if parameter.annotation in ("str", "Path") else example(str(parameter.annotation))
            for key, parameter in parameters.items()
            if parameter.default is inspect.Parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        }
        if name == "Session.content":
            arguments["path"] = "/har"
        if name == "Locator.drag":
            arguments["to"] = [{"x": 0, "y": 0}]
        if name == "AgentSession.upload":
            arguments["file"] = ("a.txt", b"a")
        yield name, functools.partial(method, **arguments)


class Coverage(unittest.TestCase):
    def reached(self) -> Set[Tuple[str, str]]:
        """Method and path, with `{}` for arguments, of the request that each method of the resources sends."""
        found: Set[Tuple[str, str]] = set()
        with Fake(answer(200, {"data": []})) as fake, Kitfleet(url=fake.url, max_retries=0) as client:
            resources = {name: value for name, value in vars(client).items() if type(value).__name__.endswith("Resource")}
            for resource in resources.values():
                for method in methods(resource).values():
                    arguments = {
                        name: "ARG" if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.annotation in ("str", "int") else example(str(parameter.annotation))
                        for name, parameter in inspect.signature(method).parameters.items()
                        if parameter.default is inspect.Parameter.empty
                    }
                    before = len(fake.received)
                    result = method(**arguments)
                    if isinstance(result, kitfleet.EventStream):
                        result._options["max_retries"] = 0
                        fake.answers = [answer(404, {"type": "x/not-found"})]
                        with self.assertRaises(errors.NotFoundError):
                            list(result)
                        fake.answers = [answer(200, {"data": []})]
                    if isinstance(result, kitfleet.Content):
                        result.read()
                    if isinstance(result, str) and result.startswith("ws"):
                        found.add(("GET", result.split("/", 3)[3].replace("ARG", "{}").join(["/", ""])))
                        continue
                    request = fake.received[before]
                    found.add((request.method, request.path.split("?")[0].replace("ARG", "{}")))
        return found

    def test_every_operation_for_customers_is_reached(self) -> None:
        reached = self.reached()
        missing = [
            operation
            for operation, (method, path, _) in customer_operations().items()
            if (method, re.sub(r"\{[^}]+\}", "{}", path)) not in reached
        ]
        self.assertEqual(missing, [])

    def test_every_slug_of_a_problem_is_a_class(self) -> None:
        table = (ROOT / "docs/contract/errors.md").read_text()
        rows = re.findall(r"(?m)^ *\| [\d, ]+ \| (.+?) \| .+ \|$", table)
        slugs = {slug for row in rows for slug in re.findall(r"`([a-z-]+)`", row)}
        self.assertGreater(len(slugs), 15)
        self.assertEqual(slugs - set(PROBLEMS), set())
        for slug, kind in PROBLEMS.items():
            self.assertTrue(issubclass(kind, errors.ProblemError))
            self.assertIs(getattr(errors, kind.__name__), kind, slug)

    def test_every_list_with_a_cursor_is_paged(self) -> None:
        expected = {operation for operation, (_, _, raw) in customer_operations().items() if cursor(raw)}
        paged = set()
        with Fake(answer(200, {"data": []})) as fake, Kitfleet(url=fake.url) as client:
            for name, call in calls(client):
                fake.received.clear()
                fake.answers = [answer(200, {"data": [{}], "has_more": True, "next_cursor": "c2"}), answer(200, {"data": [{}], "has_more": False, "next_cursor": None})]
                try:
                    result = call()
                except Exception:
                    # The answer is not that of another kind of method.
                    continue
                if isinstance(result, kitfleet.Page) and cursor(customer_operations()[operation_of(fake.received[0].method, fake.received[0].path.split("?")[0])][2]):
                    self.assertEqual(len(list(result)), 2, name)
                    self.assertEqual(len(fake.received), 2, name)
                    self.assertIn("cursor=c2", fake.received[1].path, name)
                    paged.add(operation_of(fake.received[0].method, fake.received[0].path.split("?")[0]))
        self.assertGreater(len(expected), 15)
        self.assertEqual(expected - paged, set())

    def test_only_operations_that_may_be_repeated_are_repeated(self) -> None:
        seen = set()
        with Fake(problem(503, "feature-unavailable", {"Retry-After": "0"})) as fake, Kitfleet(url=fake.url) as client, mock.patch("random.random", return_value=0.0):
            for name, call in calls(client):
                fake.received.clear()
                try:
                    result = call(options={"max_retries": 1})
                    if isinstance(result, kitfleet.EventStream):
                        list(result)
                except errors.FeatureUnavailableError:
                    pass
                if not fake.received:
                    # The address of a WebSocket.
                    continue
                operation = operation_of(fake.received[0].method, fake.received[0].path.split("?")[0])
                retryable = customer_operations()[operation][2]["x-retryable"]
                self.assertEqual(len(fake.received), 2 if retryable else 1, f"{name}: {operation}")
                seen.add(operation)
        missing = customer_operations().keys() - seen
        self.assertEqual(missing, {"watchSession"})

    def test_operations_without_a_method_are_those_for_others(self) -> None:
        unnamed = {operation["operationId"] for path, item in DOCUMENT["paths"].items() for operation in item.values() if "x-sdk" not in operation and not path.startswith("/v1/admin/")}
        self.assertEqual(unnamed, NOT_FOR_CUSTOMERS)

    def test_every_method_has_a_description(self) -> None:
        missing = []
        for module in ("_client", "_resources", "_handles", "_content", "_pager", "_stream"):
            for _, kind in inspect.getmembers(importlib.import_module(f"kitfleet._sync.{module}"), inspect.isclass):
                if not kind.__module__.endswith(module):
                    continue
                for name, method in vars(kind).items():
                    if inspect.isfunction(method) and not name.startswith("_") and not method.__doc__:
                        missing.append(f"{kind.__name__}.{name}")
        self.assertEqual(missing, [])

    def test_versions_agree(self) -> None:
        self.assertEqual(re.search(r'(?m)^version = "(.+)"', (ROOT / "clients/python/pyproject.toml").read_text())[1], kitfleet.__version__)  # type: ignore[index]
        self.assertEqual(json.loads((ROOT / "clients/typescript/package.json").read_text())["version"], kitfleet.__version__)


if __name__ == "__main__":
    unittest.main()
