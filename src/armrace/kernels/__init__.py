"""The only room with Numba: generic functions, random numbers, the engine's loops."""
