"""What policies of every family share: counts of plays and rewards, the Bernoulli divergence."""
