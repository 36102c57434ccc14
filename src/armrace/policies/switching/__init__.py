"""Policies that treat rewards as stochastic until a test fails, then switch to EXP3.P."""
