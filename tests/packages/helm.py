"""Has Helm's own library read a chart, and KEDA's schema what of it is KEDA's.

    python helm.py CHART VALUES    prints the documents; fails where `helm lint --strict` or `helm template` would
"""

import sys

import helm_python as helm
import yaml
from cloudcoil.models.keda.v1alpha1 import ScaledObject

WARNING = 2


def main() -> None:
    chart, path = sys.argv[1:]
    with open(path) as file:
        values = yaml.safe_load(file)
    found = [message for message in helm.lint(chart, values, strict=True)["messages"] if message["severity"] >= WARNING]
    if found:
        sys.exit("\n".join(f"{message['path']}: {message['error']}" for message in found))
    with helm.Chart.load(chart) as read:
        manifests = read.render(values, name="fleet", namespace="kitfleet")
    for name, text in manifests.items():
        if not name.endswith(".yaml"):
            continue
        print("---", text, sep="\n")
        for document in yaml.safe_load_all(text):
            if document is not None and document["kind"] == "ScaledObject":
                ScaledObject.model_validate(document, strict=True, extra="forbid")


main()
