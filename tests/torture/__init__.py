"""A deterministic simulator of the service under faults, and a checker of its histories.

One seed is one run: a virtual clock, nodes that die, a store that fails before or after it has kept
a turn, a network that loses, repeats, delays and reorders messages, and clients that try again.
"""
