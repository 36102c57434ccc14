"""The live page of the decision service.

Pages are rendered on the server from the answers of the HTTP API, so that they can be read without
scripts, and follow the service by server-sent events where scripts run.
"""
