"""Index policies: the arm of the largest index, and the orderings of rewards that indices need."""
