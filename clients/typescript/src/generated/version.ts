// Generated from openapi.json by clients/generate/generate.py. Do not edit.

export const VERSION = "0.1.0";
