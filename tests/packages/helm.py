"""Lints and renders a chart with Helm's own library, and checks documents of KEDA and the Prometheus operator against their schemas.

    python helm.py CHART VALUES [RELEASE]

Prints each document as a line of JSON, as a YAML stream. Fails where `helm lint --strict` or `helm template` would.
"""

import json
import sys
from importlib import import_module

import helm_python as helm
import yaml

WARNING = 2
# Modules of models. Importing one takes seconds.
MODELS = {"ScaledObject": "cloudcoil.models.keda.v1alpha1", "PodMonitor": "cloudcoil.models.prometheus_operator.v1"}


class UniqueKeys(yaml.SafeLoader):
    """Refuses a mapping that repeats a key. Other readers keep one of the values silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.constructor.ConstructorError(problem="a mapping repeats a key", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def main() -> None:
    chart, path, *release = sys.argv[1:]
    with open(path) as file:
        values = yaml.safe_load(file)
    found = [message for message in helm.lint(chart, values, strict=True)["messages"] if message["severity"] >= WARNING]
    if found:
        sys.exit("\n".join(f"{message['path']}: {message['error']}" for message in found))
    with helm.Chart.load(chart) as read:
        manifests = read.render(values, name=release[0] if release else "fleet", namespace="kitfleet")
    for name, text in manifests.items():
        if not name.endswith(".yaml"):
            continue
        for document in yaml.load_all(text, UniqueKeys):
            if document is None:
                continue
            kind = document["kind"]
            if module := MODELS.get(kind):
                getattr(import_module(module), kind).model_validate(document, strict=True, extra="forbid")
            print("---", json.dumps(document), sep="\n")


main()
