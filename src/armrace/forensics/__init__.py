"""Alarms with a proven false-alarm rate, and certificates of corruption."""

from armrace.forensics.audit import audit, watch
from armrace.forensics.audit_trail import Watched
from armrace.forensics.findings import ALARMS, Alarm, Audit

__all__ = ["ALARMS", "Alarm", "Audit", "Watched", "audit", "watch"]
