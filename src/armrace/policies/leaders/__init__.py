"""Regularised leaders: estimated losses or gains, and the probabilities that follow from them."""
