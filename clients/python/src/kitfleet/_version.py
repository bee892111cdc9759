"""Generated from openapi.json by clients/generate/generate.py. Do not edit."""

VERSION = "0.1.0"
