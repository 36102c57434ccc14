"""The decision service over HTTP: Starlette and msgspec around the same requests."""
