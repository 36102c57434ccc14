"""What is used where nothing is said; needs nothing else, so that programs start fast."""

from __future__ import annotations

__all__ = ["AUDIT_LEVEL", "DEFAULT_TENANT"]

AUDIT_LEVEL = 0.05
"""The bound on the probability that any statement of any audit is wrong."""

DEFAULT_TENANT = "main"
"""Whose experiments are reached; its keys are the operator's."""
