"""Policies that predict the reward of an arm by a linear function of the visitor's features."""
