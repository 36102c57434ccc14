"""Tables, plots and HTML pages of results; nothing is simulated here.

Matplotlib takes a while to load, so this package imports nothing by itself.
"""
