"""Samples of logs that come with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from armrace.errors import UnknownName

__all__ = ["PREFIX", "SAMPLES", "sample_path"]

PREFIX = "sample:"
"""A log of this beginning is a sample, not a file."""

SAMPLES = {"open-bandit": "open-bandit.csv.gz"}
"""The files of the samples by name; ``data/ATTRIBUTION.md`` says where they come from."""


def sample_path(name: str) -> Path:
    """Return the file of a sample.

    >>> sample_path("open-bandit").name
    'open-bandit.csv.gz'
    """
    if name not in SAMPLES:
        raise UnknownName.among("sample of a log", name, SAMPLES)
    return Path(str(files("armrace.logs").joinpath("data", SAMPLES[name])))
