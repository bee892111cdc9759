"""Reads LiveKit tokens, a line each, as LiveKit's servers do: the key, its secret and the token, separated by tabs. Prints what each lets
its bearer do as a JSON document a line, or why it lets nobody do anything."""

import dataclasses
import json
import sys

from livekit.api import TokenVerifier

for line in sys.stdin:
    key, secret, token = line.rstrip("\n").split("\t")
    try:
        claims = TokenVerifier(key, secret).verify(token)
        read = {"identity": claims.identity, "metadata": claims.metadata, "video": dataclasses.asdict(claims.video)}
    except Exception as error:
        read = {"refused": type(error).__name__}
    print(json.dumps(read), flush=True)
