"""The frames of a result, its summary, and the memory that it takes."""

import numpy as np
import pytest

import armrace
from armrace.simulation.experiment import checkpoints_for
from processes import python

ARMS, HORIZON, REPLICATIONS = 3, 400, 4


@pytest.fixture(scope="module")
def result():
    return armrace.simulate(
        "multi-layer-race",
        [0.6, 0.5, 0.4],
        "zero-best",
        budget=20,
        horizon=HORIZON,
        replications=REPLICATIONS,
        seed=5,
    )


def test_frames_have_a_row_for_each_of_what_they_count(result):
    rounds = checkpoints_for(HORIZON).tolist()
    assert result.final["replication"].to_list() == list(range(REPLICATIONS))
    assert set(result.final["round"]) == {HORIZON}
    assert result.curves.height == REPLICATIONS * len(rounds)
    assert result.curves["round"].to_list() == rounds * REPLICATIONS
    arms = result.arms.filter(result.arms["round"] == HORIZON)
    assert arms["arm"].to_list() == list(range(ARMS)) * REPLICATIONS
    pulls = arms["pulls"].to_numpy().reshape(REPLICATIONS, ARMS)
    assert np.array_equal(pulls, result.final["pulls"].to_numpy())
    layers = result.layers.filter(result.layers["round"] == HORIZON)
    assert layers["layer"].to_list() == list(range(9)) * REPLICATIONS  # 2^9 >= 400 > 2^8
    assert layers["corruption"].sum() == result.final["layer_corruption"].to_numpy().sum()
    assert result.race.height == 9 * ARMS  # layers and arms of the first replication
    assert result.race["pulls"].sum() == HORIZON


def test_the_summary_has_the_figures_of_the_final_rows(result):
    summary = result.summary()
    for measure in ("regret", "pseudo_regret", "clean_regret", "corruption"):
        sample = result.final[measure].to_numpy()
        assert summary[measure]["mean"] == pytest.approx(sample.mean())
        assert summary[measure]["stderr"] == pytest.approx(sample.std(ddof=1) / 2)
        assert summary[measure]["p50"] == pytest.approx(np.median(sample))
        assert summary[measure]["max"] == sample.max()
    assert sum(summary["pulls"]["mean"]) == pytest.approx(HORIZON)
    assert len(summary["pulls"]["stderr"]) == ARMS


def test_the_result_as_plain_data_has_the_promised_members(result):
    data = result.to_builtins()
    promised = "spec horizon replications seconds rounds_per_second summary engine"
    assert list(data) == promised.split()
    assert data["rounds_per_second"] == pytest.approx(HORIZON * REPLICATIONS / data["seconds"])


SCRIPT = """
import resource, sys
import armrace

armrace.simulate("ucb1", [0.5, 0.4], horizon=int(sys.argv[1]), replications=2, workers=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_memory(horizon):
    """Peak of a fresh process, in kilobytes."""
    run = python("-c", SCRIPT, str(horizon), check=True)
    return int(run.stdout)


def test_memory_does_not_grow_with_the_horizon():
    # An array of 2 million booleans would already take 2 MB more.
    peak_memory(1000)  # compiles, which takes memory of its own
    short, long = peak_memory(100_000), peak_memory(4_000_000)
    assert long - short < 3000
