#!/usr/bin/env python3
"""Writes the types and the resources of the SDKs from openapi.json.

    clients/generate/generate.py            writes the generated files
    clients/generate/generate.py --check    fails if a generated file differs from what would be written

An operation belongs to the SDKs if it has `x-sdk` `{resource, method}`. Python's synchronous classes are written from the
asynchronous ones in `python/src/kitfleet/_async`. Needs the standard library of Python 3.9 only.
"""

import difflib
import json
import keyword
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "clients/python/src/kitfleet"
TYPESCRIPT = ROOT / "clients/typescript/src/generated"
NOTICE = "Generated from openapi.json by clients/generate/generate.py. Do not edit."

# Operations whose answers come after a turn of an agent session, which takes minutes.
SLOW = {"sendAgentMessage"}
# Response types that the ergonomic layer extends with methods.
HANDLES = ["Session", "AgentSession"]


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def pascal(name):
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[-_. ]", name))


def camel(name):
    name = pascal(name)
    return name[:1].lower() + name[1:]


def py_name(name):
    name = snake(name)
    return name + "_" if keyword.iskeyword(name) or name == "self" else name


def is_null(schema):
    return schema.get("type") == "null"


class Document:
    def __init__(self, document):
        self.document = document
        self.schemas = document["components"]["schemas"]

    def resolve(self, value):
        while "$ref" in value:
            found = self.document
            for key in value["$ref"][2:].split("/"):
                found = found[key]
            value = found
        return value

    def properties(self, schema):
        """Properties and required names of an object, with those of `allOf`."""
        schema = self.resolve(schema)
        properties, required = {}, set()
        for part in schema.get("allOf", []):
            more, names = self.properties(part)
            properties.update(more)
            required |= names
        properties.update(schema.get("properties", {}))
        return properties, required | set(schema.get("required", []))

    def is_object(self, schema):
        schema = self.resolve(schema)
        return bool(self.properties(schema)[0]) and "oneOf" not in schema

    def reachable(self, roots):
        """Names of the schemas that `roots` refer to, directly or not."""
        seen, waiting = set(), list(roots)

        def refs(value):
            if isinstance(value, dict):
                for key, item in value.items():
                    if key == "$ref" and isinstance(item, str) and item.startswith("#/components/schemas/"):
                        waiting.append(item.rsplit("/", 1)[1])
                    elif key not in ("example", "examples", "discriminator"):
                        refs(item)
            elif isinstance(value, list):
                for item in value:
                    refs(item)

        while waiting:
            name = waiting.pop()
            if name not in seen and name in self.schemas:
                seen.add(name)
                refs(self.schemas[name])
        return seen

    def may_be_null(self, schema):
        if "$ref" in schema:
            return self.may_be_null(self.resolve(schema))
        kind = schema.get("type")
        if isinstance(kind, list) and "null" in kind:
            return True
        return any(is_null(part) or self.may_be_null(part) for part in schema.get("oneOf", []) + schema.get("anyOf", []))


class Operation:
    def __init__(self, document, method, path, raw, sdk, shared):
        self.id = raw["operationId"]
        self.verb = method.upper()
        self.path = path
        self.resource = sdk["resource"]
        self.method = sdk["method"]
        self.retryable = raw.get("x-retryable") is True
        self.text = "\n\n".join(filter(None, [raw.get("summary", "").rstrip(".") + ".", raw.get("description", "")]))
        self.path_parameters, self.query = [], []
        parameters = shared + raw.get("parameters", [])
        for parameter in parameters:
            found = document.resolve(parameter)
            if found["in"] == "path":
                component = parameter.get("$ref", "").rsplit("/", 1)[-1]
                name = snake(component) if component else snake(found["name"])
                self.path_parameters.append((found["name"], name, found.get("schema", {}).get("type") == "integer"))
            elif found["in"] == "query":
                self.query.append(found)
        self.path_parameters.sort(key=lambda parameter: path.index("{" + parameter[0] + "}"))
        self.body = None
        if "requestBody" in raw:
            content = document.resolve(raw["requestBody"])["content"]
            self.media, body = next(iter(content.items()))
            self.body = body["schema"]
            self.body_required = document.resolve(raw["requestBody"]).get("required", False)
        self.is_upload = self.body is not None and self.media not in ("application/json", "application/x-www-form-urlencoded")
        self.is_form = self.body is not None and self.media == "application/x-www-form-urlencoded"
        media, self.json, self.redirects, self.upgrades = {}, [], False, False
        for status, response in raw["responses"].items():
            response = document.resolve(response)
            if status == "101":
                self.upgrades = True
            elif status.startswith("3"):
                self.redirects = True
            elif status.startswith("2"):
                for kind, value in response.get("content", {}).items():
                    media.setdefault(kind.split(";")[0], value.get("schema", {}))
                    if kind == "application/json" and value["schema"] not in self.json:
                        self.json.append(value["schema"])
        self.streams = "text/event-stream" in media
        others = [kind for kind in media if kind not in ("application/json", "text/event-stream")]
        self.is_text = bool(others) and all(kind.startswith("text/") for kind in others)
        self.is_binary = bool(others) and not self.is_text
        self.item = None
        if len(self.json) == 1:
            properties, _ = document.properties(self.json[0])
            data = properties.get("data", {})
            pages = any(parameter["name"] == "cursor" for parameter in self.query)
            if data.get("type") == "array" and (pages or raw.get("x-pagination") or self.id.startswith("list")):
                self.item = data["items"]

    def variants(self):
        """The methods that the operation becomes: (name, kind, query parameters, fixed query)."""
        # A stream continues after an event, and has no pages.
        stream = [parameter for parameter in self.query if parameter["name"] not in ("cursor", "limit")]
        if not any(parameter["name"] == "last_event_id" for parameter in stream):
            stream.append({"name": "last_event_id", "description": "ID of the last event that was received", "schema": {"type": "string"}})
        formats = [parameter for parameter in self.query if parameter["name"] == "format"]
        rest = [parameter for parameter in self.query if parameter["name"] != "format"]
        if self.upgrades:
            yield self.method, "address", self.query, {}
        elif self.redirects and not self.json:
            yield self.method, "location", self.query, {}
        elif self.json and self.is_text and formats:
            # Without a format that is not JSON, the type of the result is known.
            yield self.method, "page" if self.item else "json", rest, {"format": "json"} if formats[0].get("required") else {}
            yield self.method + "_text", "text", self.query, {}
        elif self.json:
            yield self.method, "page" if self.item else "json", [p for p in self.query if p["name"] != "last_event_id"], {}
            if self.streams:
                yield "stream" if self.method == "list" else "stream_" + self.method, "events", stream, {}
        elif self.streams:
            yield self.method, "events", stream, {}
        elif self.is_text:
            yield self.method, "text", self.query, {}
        elif self.is_binary:
            yield self.method, "content", self.query, {}
        else:
            yield self.method, "nothing", self.query, {}


def read():
    document = Document(json.loads((ROOT / "openapi.json").read_text()))
    operations = []
    raw = [
        (method, path, operation, item.get("parameters", []))
        for path, item in document.document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    ]
    names = {operation["operationId"]: operation["x-sdk"] for _, _, operation, _ in raw if "x-sdk" in operation}
    if not names:
        sys.exit("no operation of openapi.json has x-sdk")
    for method, path, operation, shared in raw:
        if operation["operationId"] in names:
            operations.append(Operation(document, method, path, operation, names[operation["operationId"]], shared))
    seen = set()
    for operation in operations:
        key = (operation.resource, operation.method)
        if key in seen:
            sys.exit(f"two operations are {operation.resource}.{operation.method}")
        seen.add(key)
    return document, operations


def tree(operations):
    """Resources by name, parents first: {name: (operations, names of children)}."""
    resources = {}
    for operation in operations:
        parts = operation.resource.split(".")
        for length in range(1, len(parts) + 1):
            resources.setdefault(".".join(parts[:length]), ([], []))
        resources[operation.resource][0].append(operation)
    for name in resources:
        if "." in name:
            resources[name.rsplit(".", 1)[0]][1].append(name)
    return dict(sorted(resources.items()))


def problems(document):
    """Slugs of problems with the members of their own that every problem of the slug has."""
    slugs = {}
    for name, schema in document.schemas.items():
        if not name.endswith("Problem") or name == "Problem":
            continue
        properties, _ = document.properties(schema)
        code = properties.get("code", {})
        found = list(code.get("enum", [])) or ([code["const"]] if "const" in code else [])
        pattern = re.match(r".*/([a-z-]+)\$?$", properties.get("type", {}).get("pattern", ""))
        if not found and pattern:
            found = [pattern[1]]
        for slug in found:
            slugs[slug] = (properties.get("status", {}).get("const") or properties.get("status", {}).get("enum", [0])[0])
    codes = document.schemas.get("ProblemCode", {})
    for slug in codes.get("x-extensible-enum", codes.get("enum", [])):
        slugs.setdefault(slug, 0)
    return dict(sorted(slugs.items()))


def comment(text, indent):
    """A comment of TypeScript."""
    lines = [line.rstrip() for line in text.replace("*/", "* /").strip().split("\n")]
    if not lines or not lines[0]:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} *{' ' + line if line else ''}\n" for line in lines) + f"{indent} */\n"


def docstring(text, indent):
    text = text.strip().replace("\\", "\\\\").replace('"""', "'''")
    if not text:
        return ""
    lines = [line.rstrip() for line in text.split("\n")]
    if lines[-1].endswith('"'):
        lines[-1] += " "
    body = f"\n{indent}".join(lines) if len(lines) == 1 else "\n".join([lines[0]] + [indent + line if line else "" for line in lines[1:]])
    return f'{indent}"""{body}"""\n' if len(lines) == 1 else f'{indent}"""{body}\n{indent}"""\n'


# TypeScript


def ts_type(document, schema, prefix=""):
    if "$ref" in schema:
        return prefix + schema["$ref"].rsplit("/", 1)[1]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return " | ".join(dict.fromkeys("null" if is_null(part) else ts_type(document, part, prefix) for part in schema[key]))
    if "allOf" in schema:
        parts = [ts_type(document, part, prefix) for part in schema["allOf"]]
        if "properties" in schema:
            parts.append(ts_object(document, schema, "  ", prefix))
        return " & ".join(parts)
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(ts_type(document, dict(schema, type=one), prefix) for one in kind)
    if kind == "array":
        item = ts_type(document, schema.get("items", {}), prefix)
        return f"({item})[]" if " " in item else f"{item}[]"
    if kind == "object" or "properties" in schema:
        if schema.get("properties"):
            return ts_object(document, schema, "  ", prefix)
        more = schema.get("additionalProperties", True)
        return f"Record<string, {ts_type(document, more, prefix) if isinstance(more, dict) and more else 'unknown'}>"
    return {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}.get(kind, "unknown")


def ts_object(document, schema, indent, prefix=""):
    required = set(schema.get("required", []))
    lines = ["{\n"]
    for name, value in schema["properties"].items():
        lines.append(comment(value.get("description", ""), indent))
        key = name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)
        lines.append(f"{indent}{key}{'' if name in required else '?'}: {ts_type(document, value, prefix)};\n")
    if schema.get("additionalProperties") is True:
        lines.append(f"{indent}[member: string]: unknown;\n")
    return "".join(lines) + indent[2:] + "}"


def ts_types(document, names):
    out = [f"// {NOTICE}\n\n"]
    for name in sorted(names):
        schema = document.schemas[name]
        out.append(comment(schema.get("description", ""), ""))
        if schema.get("properties") and "allOf" not in schema and "oneOf" not in schema:
            out.append(f"export interface {name} {ts_object(document, schema, '  ')}\n\n")
        else:
            out.append(f"export type {name} = {ts_type(document, schema)};\n\n")
    return "".join(out)


def ts_result(document, schema):
    schema_name = schema.get("$ref", "").rsplit("/", 1)[-1]
    if schema_name in HANDLES:
        return schema_name
    return ts_type(document, schema, "t.")


def ts_resources(document, operations):
    resources = tree(operations)
    out = [
        f"// {NOTICE}\n\n",
        'import type { Content } from "../content.js";\n',
        'import { type Core, segment as e } from "../core.js";\n',
        'import type { Pager } from "../pager.js";\n',
        'import type { RequestOptions } from "../request.js";\n',
        f'import type {{ {", ".join(sorted(HANDLES))} }} from "../handles.js";\n',
        'import type { EventStream } from "../stream.js";\n',
        'import type { UploadBody } from "../content.js";\n',
        'import type * as t from "./types.js";\n\n',
    ]
    # A child is declared before its parent, whose constructor makes it.
    for name in sorted(resources, key=lambda name: (-name.count("."), name)):
        members, children = resources[name]
        title = pascal(name) + "Resource"
        out.append(f"export class {title} {{\n  readonly #core: Core;\n")
        for child in children:
            out.append(f"  readonly {camel(child.rsplit('.', 1)[1])}: {pascal(child)}Resource;\n")
        out.append("\n  constructor(core: Core) {\n    this.#core = core;\n")
        for child in children:
            out.append(f"    this.{camel(child.rsplit('.', 1)[1])} = new {pascal(child)}Resource(core);\n")
        out.append("  }\n")
        for operation in members:
            for variant in operation.variants():
                out.append(ts_method(document, operation, *variant))
        out.append("}\n\n")
    out.append("/** The resources of the API. */\nexport class Resources {\n")
    roots = [name for name in resources if "." not in name]
    for name in roots:
        out.append(f"  readonly {camel(name)}: {pascal(name)}Resource;\n")
    out.append("\n  constructor(core: Core) {\n")
    for name in roots:
        out.append(f"    this.{camel(name)} = new {pascal(name)}Resource(core);\n")
    out.append("  }\n}\n")
    return "".join(out)


def ts_method(document, operation, name, kind, query, fixed):
    arguments = [f"{camel(argument)}: {'number' if integer else 'string'}" for _, argument, integer in operation.path_parameters]
    parts = re.split(r"(\{[^}]+\})", operation.path)
    names = {"{" + raw + "}": camel(argument) for raw, argument, _ in operation.path_parameters}
    path = "".join("${e(" + names[part] + ")}" if part in names else part for part in parts)
    path = f"`{path}`" if "${" in path else json.dumps(path)
    extras = []
    if operation.is_upload:
        arguments.append("body: UploadBody")
        extras += ["body", f"media: {json.dumps(operation.media)}"]
    elif operation.body is not None:
        if document.is_object(operation.body):
            optional = not document.properties(operation.body)[1]
        else:
            optional = not operation.body_required
        arguments.append(f"body: {ts_type(document, operation.body, 't.')}{' = {}' if optional else ''}")
        extras.append("form: body" if operation.is_form else "body")
    if query:
        members = []
        for parameter in query:
            description = comment(parameter.get("description", ""), "      ")
            members.append(f"{description}      {parameter['name']}{'' if parameter.get('required') else '?'}: {ts_type(document, parameter['schema'], 't.')};\n")
        optional = not any(parameter.get("required") for parameter in query)
        arguments.append("query: {\n" + "".join(members) + "    }" + (" = {}" if optional else ""))
        extras.append("query")
    elif fixed:
        extras.append(f"query: {json.dumps(fixed)}")
    if operation.retryable:
        extras.append("retryable: true")
    if operation.id in SLOW:
        extras.append("slow: true")
    result, call = {
        "json": lambda: (" | ".join(ts_result(document, schema) for schema in operation.json), "call"),
        "page": lambda: (ts_result(document, operation.item), "page"),
        "events": lambda: ("", "events"),
        "content": lambda: ("Content", "content"),
        "text": lambda: ("string", "text"),
        "location": lambda: ("string", "location"),
        "address": lambda: ("string", "address"),
        "nothing": lambda: ("void", "call"),
    }[kind]()
    returned = {"page": f"Pager<{result}>", "events": "EventStream", "address": "string"}.get(kind, f"Promise<{result}>")
    handle = ""
    first = (operation.item if kind == "page" else operation.json[0] if operation.json else {}).get("$ref", "").rsplit("/", 1)[-1]
    if first in HANDLES and kind in ("json", "page"):
        extras.append(f'handle: "{first}"')
    if kind == "address":
        call_arguments = [path]
    else:
        arguments.append("options?: RequestOptions")
        call_arguments = [path, "options"] if operation.verb == "GET" and kind in ("page", "events") else [json.dumps(operation.verb), path, "options"]
        if extras:
            call_arguments.append("{ " + ", ".join(extras) + " }")
    signature = ", ".join(arguments)
    generic = f"<{result}>" if kind == "page" or (kind == "json") else ("<void>" if kind == "nothing" else "")
    return (
        "\n"
        + comment(operation.text, "  ")
        + f"  {camel(name)}({signature}): {returned} {{\n    return this.#core.{call}{generic}({', '.join(call_arguments)});\n  }}\n"
    )


def ts_problems(document):
    out = [f"// {NOTICE}\n\n", 'import { ProblemError } from "../errors.js";\n\n']
    slugs = problems(document)
    for slug, status in slugs.items():
        out.append(f"/** The problem `{slug}`. */\nexport class {pascal(slug)}Error extends ProblemError {{}}\n")
    out.append("\n/** Classes of problems by their code. */\nexport const PROBLEMS: Record<string, typeof ProblemError> = {\n")
    for slug in slugs:
        out.append(f"  {json.dumps(slug)}: {pascal(slug)}Error,\n")
    return "".join(out) + "};\n"


# Python


def py_type(document, schema, where):
    """`where` is `models` for results and `params` for arguments; `` inside those modules themselves."""
    own = where.startswith("own ")
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return name if own else f"{where}.{name}"
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        return "Literal[" + ", ".join(repr(value) for value in schema["enum"]) + "]"
    for key in ("oneOf", "anyOf"):
        if key in schema:
            parts = list(dict.fromkeys("None" if is_null(part) else py_type(document, part, where) for part in schema[key]))
            return parts[0] if len(parts) == 1 else f"Union[{', '.join(parts)}]"
    kind = schema.get("type")
    if isinstance(kind, list):
        parts = [py_type(document, dict(schema, type=one), where) for one in kind]
        return parts[0] if len(parts) == 1 else f"Union[{', '.join(parts)}]"
    if kind == "array":
        item = py_type(document, schema.get("items", {}), where)
        return f"{'Sequence' if where.endswith('params') else 'List'}[{item}]"
    if kind == "object" or "properties" in schema or "allOf" in schema:
        more = schema.get("additionalProperties", True)
        value = "Any" if schema.get("properties") or not isinstance(more, dict) or not more else py_type(document, more, where)
        return f"{'Mapping' if where.endswith('params') else 'Dict'}[str, {value}]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}.get(kind, "Any")


def py_nested(schema):
    """Name of the schema of the objects in a value, which the models need at run time; prefixed by `{` for maps."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    for part in schema.get("oneOf", []) + schema.get("anyOf", []):
        if not is_null(part):
            return py_nested(part)
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "array" in kinds:
        return py_nested(schema.get("items", {}))
    if "object" in kinds and isinstance(schema.get("additionalProperties"), dict) and not schema.get("properties"):
        nested = py_nested(schema["additionalProperties"])
        return "{" + nested if nested else None
    return None


def is_model(document, name):
    schema = document.schemas[name]
    return bool(document.properties(schema)[0]) and "oneOf" not in schema


def py_alias(document, name, where):
    schema = document.schemas[name]
    return f"{name} = {py_type(document, schema, where)}\n\n"


def aliases_in_order(document, names):
    """Aliases after the aliases they refer to, because they are evaluated."""
    done = []

    def visit(name):
        if name in done or name not in names:
            return
        for other in sorted(document.reachable([name]) - {name}):
            if other in names and name not in document.reachable([other]):
                visit(other)
        done.append(name)

    for name in sorted(names):
        visit(name)
    return done


def py_models(document, names):
    out = [
        f'"""Results of the API.\n\n{NOTICE}\n"""\n\n',
        "from __future__ import annotations\n\n",
        "from typing import Any, ClassVar, Dict, List, Literal, Mapping, Optional, Tuple, Union\n\n",
        "from ._model import Model, Registry\n\n",
    ]
    models = [name for name in sorted(names) if is_model(document, name)]
    for name in models:
        properties, required = document.properties(document.schemas[name])
        text = docstring(document.schemas[name].get("description", ""), "    ")
        out.append(f"\nclass {name}(Model):\n{text}")
        nested = {key: py_nested(value) for key, value in properties.items()}
        nested = {
            key: value
            for key, value in nested.items()
            if value and (is_model(document, value.lstrip("{")) or "oneOf" in document.schemas[value.lstrip("{")])
        }
        optional = sorted(key for key in properties if key not in required)
        if nested:
            out.append(f"    _nested: ClassVar[Mapping[str, str]] = {nested!r}\n")
        if optional:
            out.append(f"    _optional: ClassVar[Tuple[str, ...]] = {tuple(optional)!r}\n")
        for key, value in properties.items():
            kind = py_type(document, value, "own models")
            if key not in required and not document.may_be_null(value):
                kind = f"Optional[{kind}]"
            out.append(f"    {py_name(key) if keyword.iskeyword(key) else key}: {kind}\n")
            out.append(docstring(value.get("description", ""), "    "))
        if not text and not properties:
            out.append("    pass\n")
        out.append("\n")
    unions = {}
    out.append("\n")
    for name in aliases_in_order(document, {name for name in names if not is_model(document, name)}):
        out.append(py_alias(document, name, "own models"))
        schema = document.schemas[name]
        if "oneOf" in schema:
            member = schema.get("discriminator", {}).get("propertyName")
            mapping = {key: value.rsplit("/", 1)[1] for key, value in schema.get("discriminator", {}).get("mapping", {}).items()}
            if not mapping:
                mapping = {part["$ref"].rsplit("/", 1)[1]: part["$ref"].rsplit("/", 1)[1] for part in schema["oneOf"] if "$ref" in part}
                member = None
            unions[name] = (member, mapping)
    out.append("UNIONS: Dict[str, Tuple[Optional[str], Dict[str, str]]] = {\n")
    for name, value in sorted(unions.items()):
        out.append(f"    {name!r}: {value!r},\n")
    out.append("}\n")
    required = {name: tuple(sorted(document.properties(document.schemas[name])[1])) for member, mapping in unions.values() if member is None for name in mapping.values()}
    out.append('"""Unions: the member that tells which of the classes a value has, if there is one, and the classes."""\n\n')
    out.append(f"REQUIRED: Dict[str, Tuple[str, ...]] = {required!r}\n\n")
    out.append("REGISTRY = Registry(globals(), UNIONS, REQUIRED)\n")
    return "".join(out)


def py_params(document, names):
    out = [
        f'"""Arguments of the API: dictionaries with these members.\n\n{NOTICE}\n"""\n\n',
        "from __future__ import annotations\n\n",
        "from typing import Any, Literal, Mapping, Sequence, TypedDict, Union\n\n",
    ]
    dicts = [name for name in sorted(names) if is_model(document, name)]
    for name in dicts:
        properties, required = document.properties(document.schemas[name])
        base = "TypedDict"
        parts = [(True, {key: value for key, value in properties.items() if key in required}), (False, {key: value for key, value in properties.items() if key not in required})]
        text = docstring(document.schemas[name].get("description", ""), "    ")
        if parts[0][1] and parts[1][1]:
            out.append(f"\nclass _{name}(TypedDict):\n{py_members(document, parts[0][1])}\n")
            out.append(f"\nclass {name}(_{name}, total=False):\n{text}{py_members(document, parts[1][1])}\n")
        elif parts[0][1]:
            out.append(f"\nclass {name}(TypedDict):\n{text}{py_members(document, parts[0][1])}\n")
        else:
            out.append(f"\nclass {name}(TypedDict, total=False):\n{text}{py_members(document, parts[1][1])}\n")
    out.append("\n")
    for name in aliases_in_order(document, {name for name in names if not is_model(document, name)}):
        out.append(py_alias(document, name, "own params"))
    return "".join(out)


def py_members(document, properties):
    out = []
    for key, value in properties.items():
        out.append(f"    {key}: {py_type(document, value, 'own params')}\n")
        out.append(docstring(value.get("description", ""), "    "))
    return "".join(out)


def py_resources(document, operations):
    resources = tree(operations)
    out = [
        f'"""{NOTICE}"""\n\n',
        "from __future__ import annotations\n\n",
        "from typing import TYPE_CHECKING, Any, Dict, List, Literal, Mapping, Optional, Sequence, Union, cast\n\n",
        "from .._common import OMIT, Omit, given, quote\n\n",
        "if TYPE_CHECKING:\n",
        "    from .. import models, params\n",
        "    from .._common import AsyncUploadBody, RequestOptions\n",
        ""
        "    from ._content import AsyncContent\n",
        "    from ._core import AsyncCore, AsyncOpening\n",
        "    from ._handles import AsyncAgentSession, AsyncSession\n",
        "    from ._pager import AsyncPager\n",
        "    from ._stream import AsyncEventStream\n\n",
    ]
    for name in sorted(resources, key=lambda name: (-name.count("."), name)):
        members, children = resources[name]
        out.append(f"\nclass Async{pascal(name)}Resource:\n")
        out.append("    def __init__(self, core: AsyncCore) -> None:\n        self._core = core\n")
        for child in children:
            out.append(f"        self.{py_name(child.rsplit('.', 1)[1])} = Async{pascal(child)}Resource(core)\n")
        # A method named `list` hides the type in annotations of its class.
        for operation in members:
            for variant in operation.variants():
                out.append(py_method(document, operation, *variant))
        out.append("\n")
    out.append('\nclass AsyncResources:\n    """The resources of the API."""\n\n    def __init__(self, core: AsyncCore) -> None:\n')
    for name in resources:
        if "." not in name:
            out.append(f"        self.{py_name(name)} = Async{pascal(name)}Resource(core)\n")
    return "".join(out)


def py_result(document, schema):
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    return "Async" + name if name in HANDLES else py_type(document, schema, "models")


def py_model_name(document, schema):
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    return name or None


def py_method(document, operation, name, kind, query, fixed):
    arguments = ["self"] + [f"{py_name(argument)}: {'int' if integer else 'str'}" for _, argument, integer in operation.path_parameters]
    names = {"{" + raw + "}": py_name(argument) for raw, argument, _ in operation.path_parameters}
    parts = re.split(r"(\{[^}]+\})", operation.path)
    path = "".join("{quote(" + names[part] + ")}" if part in names else part for part in parts)
    path = ("f" if "{quote(" in path else "") + json.dumps(path)
    keyword_arguments, call_extras = [], []
    text = operation.text

    def argument(key, schema, required, sentinel):
        kind_ = py_type(document, schema, "params")
        name_ = py_name(key)
        if required:
            keyword_arguments.insert(0, f"{name_}: {kind_}")
        elif sentinel:
            keyword_arguments.append(f"{name_}: Union[{kind_}, Omit] = OMIT")
        else:
            keyword_arguments.append(f"{name_}: {kind_ if document.may_be_null(schema) else f'Optional[{kind_}]'} = None")
        return name_

    if operation.is_upload:
        arguments.append("body: AsyncUploadBody")
        call_extras += ["content=body", f"media={operation.media!r}"]
    elif operation.body is not None and document.is_object(operation.body):
        properties, required = document.properties(operation.body)
        kept, dropped, always = [], [], []
        for key, schema in properties.items():
            needed = key in required
            sentinel = not needed and operation.verb in ("PATCH", "PUT") and document.may_be_null(schema)
            name_ = argument(key, schema, needed, sentinel)
            (always if needed else kept if sentinel else dropped).append(f"{key!r}: {name_}")
        body = f"given({{{', '.join(dropped)}}}, {{{', '.join(always + kept)}}})"
        call_extras.append(f"{'form' if operation.is_form else 'json'}={body}")
        text += "".join(
            f"\n\n- `{py_name(key)}`: {' '.join(schema['description'].split())}" if index == 0 else f"\n- `{py_name(key)}`: {' '.join(schema['description'].split())}"
            for index, (key, schema) in enumerate((key, schema) for key, schema in properties.items() if schema.get("description"))
        )
    elif operation.body is not None:
        kind_ = py_type(document, operation.body, "params")
        if operation.body_required:
            arguments.append(f"body: {kind_}")
            call_extras.append("json=body")
        else:
            arguments.append(f"body: Optional[{kind_}] = None")
            call_extras.append("json=body or {}")
    if query:
        pairs = []
        for parameter in query:
            name_ = argument(parameter["name"], parameter["schema"], parameter.get("required", False), False)
            pairs.append(f"{parameter['name']!r}: {name_}")
        call_extras.append(f"query={{{', '.join(pairs)}}}")
    elif fixed:
        call_extras.append(f"query={fixed!r}")
    if operation.retryable:
        call_extras.append("retryable=True")
    if operation.id in SLOW:
        call_extras.append("slow=True")
    if kind == "address":
        return f"\n    def {py_name(name)}({', '.join(arguments)}) -> str:\n{docstring(text, '        ')}        return self._core.address({path})\n"
    if any(item.startswith("options:") for item in keyword_arguments):
        sys.exit(f"{operation.id} has a field named options")
    arguments += ["*"] + keyword_arguments + ["options: Optional[RequestOptions] = None"]
    schema = operation.item if kind == "page" else (operation.json[0] if operation.json else {})
    model = py_model_name(document, schema) if schema else None
    if kind in ("json", "page") and model and (model in HANDLES or is_model(document, model) or "oneOf" in document.schemas[model]):
        call_extras.append(f"model={model!r}")
    if kind == "json" and len(operation.json) > 1:
        call_extras[-1] = "model=" + repr("|".join(py_model_name(document, one) for one in operation.json))
    signature = ", ".join(arguments)
    call_arguments = ", ".join(([json.dumps(operation.verb)] if kind not in ("page", "events") else []) + [path, "options"] + call_extras)
    results = list(dict.fromkeys(py_result(document, one) for one in operation.json)) if kind == "json" else []
    result = results[0] if len(results) == 1 else f"Union[{', '.join(results)}]"
    head = f"\n    async def {py_name(name)}({signature}) -> "
    doc = docstring(text, "        ")
    if kind == "json" and model in HANDLES:
        return f'\n    def {py_name(name)}({signature}) -> AsyncOpening[{result}]:\n{doc}        return cast("AsyncOpening[{result}]", self._core.open({call_arguments}))\n'
    if kind == "json" and result == "Any":
        return f"{head}Any:\n{doc}        return await self._core.call({call_arguments})\n"
    if kind == "json":
        return f'{head}{result}:\n{doc}        return cast("{result}", await self._core.call({call_arguments}))\n'
    if kind == "page":
        item = py_result(document, operation.item)
        return f"\n    def {py_name(name)}({signature}) -> AsyncPager[{item}]:\n{doc}        return self._core.page({call_arguments})\n"
    if kind == "events":
        return f"\n    def {py_name(name)}({signature}) -> AsyncEventStream:\n{doc}        return self._core.events({call_arguments})\n"
    if kind == "content":
        return f"{head}AsyncContent:\n{doc}        return await self._core.content({call_arguments})\n"
    if kind in ("text", "location"):
        return f"{head}str:\n{doc}        return await self._core.{kind}({call_arguments})\n"
    return f"{head}None:\n{doc}        await self._core.call({call_arguments})\n"


def py_problems(document):
    out = [f'"""{NOTICE}"""\n\nfrom typing import Dict, Type\n\nfrom ._errors import ProblemError, public\n\n']
    slugs = problems(document)
    for slug in slugs:
        out.append(f'\nclass {pascal(slug)}Error(ProblemError):\n    """The problem `{slug}`."""\n\n')
    out.append("\nPROBLEMS: Dict[str, Type[ProblemError]] = {\n")
    for slug in slugs:
        out.append(f"    {slug!r}: {pascal(slug)}Error,\n")
    out.append('}\n"""Classes of problems by their code."""\npublic(*PROBLEMS.values())\n\n__all__ = [\n    "PROBLEMS",\n')
    out.extend(f'    "{pascal(slug)}Error",\n' for slug in slugs)
    return "".join(out) + "]\n"


SYNC = [
    (r"\basync def ", "def "),
    (r"\basync with ", "with "),
    (r"\basync for ", "for "),
    (r"\bawait ", ""),
    (r"AsyncOpening\[(\w+)\]", r"\1"),
    (r", AsyncOpening\b", ""),
    (r"\bAsyncPager\b", "Page"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncIterable\b", "Iterable"),
    (r"\bAwaitable\[(Dict\[str, Any\])\]", r"\1"),
    (r"\bAsync(?=[A-Z]\w)", ""),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"__aiter__", "__iter__"),
    (r"__anext__", "__next__"),
    (r"\baiter_bytes\b", "iter_bytes"),
    (r"\baread\b", "read"),
    (r"\baclose\b", "close"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"(\s)aenter\b", r"\1enter"),
]


def used_imports(text):
    """`text` without the names of `from … import` that it does not use."""

    def prune(found):
        if "__future__" in found[1]:
            return found[0]
        names = [name for name in found[2].split(", ") if len(re.findall(rf"\b{name}\b(?!`)", text)) > 1 and (name != "List" or "List[" in text)]
        return f"{found[1]}{', '.join(names)}\n" if names else ""

    return re.sub(r"(?m)^( *from \S+ import )([^(\n]+)\n", prune, text)


def synchronous(text):
    # Parts that only one of the two has.
    text = re.sub(r"^ *# async only\n.*?^ *# end\n", "", text, flags=re.S | re.M)
    text = re.sub(r"^( *)# sync: (.*)\n", r"\1\2\n", text, flags=re.M)
    text = re.sub(r"^.*  # async\n", "", text, flags=re.M)
    for pattern, replacement in SYNC:
        text = re.sub(pattern, replacement, text)
    text = used_imports(text)
    return f"# Written from ../_async by clients/generate/generate.py. Do not edit.\n\n{text}"


def files():
    document, operations = read()
    results, arguments, roots = set(), set(), set()

    def refs(schema, into):
        if isinstance(schema, dict):
            for key, value in schema.items():
                if key == "$ref" and isinstance(value, str) and "/schemas/" in value:
                    into.add(value.rsplit("/", 1)[1])
                elif key not in ("example", "examples"):
                    refs(value, into)
        elif isinstance(schema, list):
            for value in schema:
                refs(value, into)

    for operation in operations:
        refs(operation.json, results)
        if operation.is_binary or operation.is_upload:
            continue
        if operation.body is not None:
            refs(operation.body, arguments)
            refs(operation.query, arguments)
        else:
            refs(operation.query, arguments)
    # Bodies become keyword arguments, but are exported, too: callers build them.
    results |= {"Problem", "WebhookEvent", "Notification"} & set(document.schemas)
    models = document.reachable(results)
    params = document.reachable(arguments)
    roots = models | params | document.reachable(name for name in document.schemas if name == "ProfileDocument")
    version = workspace_version()
    generated = {
        TYPESCRIPT / "types.ts": ts_types(document, roots),
        TYPESCRIPT / "resources.ts": ts_resources(document, operations),
        TYPESCRIPT / "problems.ts": ts_problems(document),
        TYPESCRIPT / "version.ts": f"// {NOTICE}\n\nexport const VERSION = {json.dumps(version)};\n",
        PYTHON / "models.py": used_imports(py_models(document, models)),
        PYTHON / "params.py": used_imports(py_params(document, params)),
        PYTHON / "_problems.py": py_problems(document),
        PYTHON / "_version.py": f'"""{NOTICE}"""\n\nVERSION = {json.dumps(version)}\n',
        PYTHON / "_async/_resources.py": used_imports(py_resources(document, operations)),
    }
    for source in sorted((PYTHON / "_async").glob("*.py")):
        if source.name not in ("_resources.py", "_io.py"):
            generated[PYTHON / "_sync" / source.name] = synchronous(source.read_text())
    generated[PYTHON / "_sync/_resources.py"] = synchronous(generated[PYTHON / "_async/_resources.py"])
    return generated


def workspace_version():
    return re.search(r'(?m)^\[workspace\.package\].*?^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.S)[1]


def main():
    check = "--check" in sys.argv[1:]
    differs = False
    for path, text in files().items():
        old = path.read_text() if path.exists() else None
        if old == text:
            continue
        if check:
            differs = True
            print("".join(list(difflib.unified_diff((old or "").splitlines(True), text.splitlines(True), str(path.relative_to(ROOT)), "generated"))[:40]))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(path.relative_to(ROOT))
    if differs:
        sys.exit("Generated files differ from openapi.json. To write them: clients/generate/generate.py")


if __name__ == "__main__":
    main()
