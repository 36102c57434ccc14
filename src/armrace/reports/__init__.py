"""Tables, plots and the HTML page; they read results, and run nothing.

``page`` draws with matplotlib, which takes a while to load, so nothing is imported here.
"""
