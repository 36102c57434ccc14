"""Thompson sampling: Beta posteriors, their sampling and the law of the largest draw."""
