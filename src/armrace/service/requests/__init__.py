"""What can be asked of the ledger, by what it concerns.

To describe an experiment is in ``views``; what reads a long log in parts has modules of its own.
"""
