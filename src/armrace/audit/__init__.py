"""Alarms with a proven false-alarm rate, and certificates of corruption."""

from armrace.audit.audit_trail import Watched
from armrace.audit.auditing import audit, watch
from armrace.audit.findings import ALARMS, Alarm, Audit

__all__ = ["ALARMS", "Alarm", "Audit", "Watched", "audit", "watch"]
