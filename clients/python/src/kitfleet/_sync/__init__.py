# Written from ../_async by clients/generate/generate.py. Do not edit.

"""The asynchronous client."""
