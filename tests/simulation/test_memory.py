"""Nothing as long as the horizon is ever kept."""

import subprocess
import sys

SCRIPT = """
import resource, sys
import armrace

armrace.simulate("ucb1", [0.5, 0.4], horizon=int(sys.argv[1]), replications=2, workers=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_memory(horizon):
    """Peak of a fresh process, in kilobytes."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(horizon)], capture_output=True, text=True, check=True
    )
    return int(run.stdout)


def test_memory_does_not_grow_with_the_horizon():
    # An array of 2 million booleans would already take 2 MB more.
    peak_memory(1000)  # compiles, which takes memory of its own
    short, long = peak_memory(100_000), peak_memory(4_000_000)
    assert long - short < 3000
