"""Packages that only some uses need, and the sentence that names the one to install."""

from __future__ import annotations

_SERVICE = ("apsw", "starlette", "uvicorn", "jinja2")
_EXTRA_OF = {
    **dict.fromkeys(_SERVICE, "service"),
    "psycopg": "postgres",
    "distributed": "dask",
}


def missing_package(error: ImportError) -> str:
    """Return how to install a package that could not be imported."""
    name = str(error.name).partition(".")[0]
    if name not in _EXTRA_OF:
        raise error
    extra = _EXTRA_OF[name]
    return f"this needs the package {name}; install it with: pip install 'armrace[{extra}]'."
