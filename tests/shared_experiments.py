"""What every executor is given to compute."""

from armrace.simulation import make_experiment

EXPERIMENTS = [
    make_experiment(
        policy=policy,
        environment=[0.6, 0.5, 0.4],
        adversary="zero-best",
        budget=25.5,
        horizon=5_000,
        replications=60,
        seed=3,
    )
    for policy in ("multi-layer-race", "ucb1")
]
