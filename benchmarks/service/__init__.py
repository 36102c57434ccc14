"""The speed of the decision service: ``python -m benchmarks.service``.

Requests per second depend on the machine and on what else it does. So a bare handler, which reads a
body and answers, runs in turn with the service under the same load, and ratios to it are reported.
"""
