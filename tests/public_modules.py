"""The modules whose ``__all__`` users may rely on."""

PUBLIC = (
    "armrace",
    "armrace.adversaries",
    "armrace.checking",
    "armrace.environments",
    "armrace.errors",
    "armrace.extending",
    "armrace.forensics",
    "armrace.offline",
    "armrace.online",
    "armrace.planning",
    "armrace.policies",
    "armrace.service",
    "armrace.simulation",
    "armrace.statistics",
    "armrace.theory",
    "armrace.verification",
    "armrace_client",
)
