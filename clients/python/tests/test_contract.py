"""That the SDKs cover the contract: every operation for customers, every problem, every list."""

import inspect
import json
import pathlib
import re
import unittest
from typing import Any, Dict, Set, Tuple

from fake import Fake, answer

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
        source = (ROOT / "clients/python/src/kitfleet/_sync/_resources.py").read_text()
        typescript = (ROOT / "clients/typescript/src/generated/resources.ts").read_text()
        for operation, (method, path, raw) in customer_operations().items():
            names = [parameter.get("name", parameter.get("$ref", "").rsplit("/", 1)[-1]).lower() for parameter in raw.get("parameters", [])]
            if "cursor" not in names:
                continue
            python_path = re.sub(r"\{[^}]+\}", lambda _: r"\{quote\(\w+\)\}", re.escape(path).replace(r"\{", "{").replace(r"\}", "}"))
            self.assertRegex(source, rf'self\._core\.page\(f?"{python_path}"', operation)
            script_path = re.sub(r"\{[^}]+\}", lambda _: r"\$\{e\(\w+\)\}", re.escape(path).replace(r"\{", "{").replace(r"\}", "}"))
            self.assertRegex(typescript, rf'this\.#core\.page<.*>\([`"]{script_path}[`"]', operation)

    def test_retries_are_those_of_the_contract(self) -> None:
        source = (ROOT / "clients/python/src/kitfleet/_sync/_resources.py").read_text()
        for operation, (method, path, raw) in customer_operations().items():
            if raw.get("x-retryable"):
                continue
            python_path = re.sub(r"\{[^}]+\}", lambda _: r"\{quote\(\w+\)\}", re.escape(path).replace(r"\{", "{").replace(r"\}", "}"))
            for line in re.findall(rf'.*"{method}", f?"{python_path}".*', source):
                self.assertNotIn("retryable=True", line, operation)

    def test_versions_agree(self) -> None:
        self.assertEqual(re.search(r'(?m)^version = "(.+)"', (ROOT / "clients/python/pyproject.toml").read_text())[1], kitfleet.__version__)  # type: ignore[index]
        self.assertEqual(json.loads((ROOT / "clients/typescript/package.json").read_text())["version"], kitfleet.__version__)


if __name__ == "__main__":
    unittest.main()
