"""The modules whose ``__all__`` users may rely on."""

_OF_THE_PACKAGE = """
    adversaries testing environments errors extending audit offline learner planning policies
    service simulation statistics theory verification
"""
PUBLIC = ("armrace", *(f"armrace.{each}" for each in _OF_THE_PACKAGE.split()), "armrace_client")
