"""The modules whose ``__all__`` users may rely on."""

PUBLIC = (
    "armrace",
    "armrace.adversaries",
    "armrace.testing",
    "armrace.environments",
    "armrace.errors",
    "armrace.extending",
    "armrace.audit",
    "armrace.offline",
    "armrace.learner",
    "armrace.planning",
    "armrace.policies",
    "armrace.service",
    "armrace.simulation",
    "armrace.statistics",
    "armrace.theory",
    "armrace.verification",
    "armrace_client",
)
