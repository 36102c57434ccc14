"""The speed of the decision service: ``python -m benchmarks.service``.

Figures depend on the machine and on what else it does. So each is compared with something that runs
in turn with it under the same load: a bare handler, SQLite alone, a smaller store, a quiet server.
"""
