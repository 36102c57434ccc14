"""Epochs of fixed sampling probabilities, as BARBAR and BARBAT use them."""
