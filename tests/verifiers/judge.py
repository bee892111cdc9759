"""Reads deliveries from standard input, and writes what the verifier says of each: "verified", or why not."""

import base64
import json
import sys

from kitfleet_webhook import NotVerified, verify


def judge(delivery: dict) -> str:
    try:
        verify(delivery["secret"], delivery["header"], base64.b64decode(delivery["body"]), now=delivery.get("now"))
        return "verified"
    except NotVerified as error:
        return error.reason
    except ValueError:
        return "misused"


print(json.dumps([judge(delivery) for delivery in json.load(sys.stdin)]))
