"""The claims of the paper as experiments that can fail."""
