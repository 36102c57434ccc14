"""The only room with Numba: generic functions, formulas, the engine's loops."""
