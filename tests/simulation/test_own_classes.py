"""Results of classes that are in no catalogue: shown, saved and run again like all others."""

import os
import sys

import pytest

import armrace
from armrace.cli.tables import print_result
from armrace.reports.comparison import render_report
from armrace.simulation import Comparison
from processes import python

SOURCE = """
import numpy as np

from armrace.adversaries import ADVERSARIES
from armrace.environments import Environment
from armrace.kernels import laws
from armrace.policies import POLICIES


class Coins(Environment, frozen=True, tag="coins"):
    number: int = 3

    def mean_rewards(self, horizon):
        return np.linspace(0.2, 0.8, self.number)

    def law(self):
        return laws.make_law(laws.BERNOULLI, self.number, first=self.mean_rewards(1))


class Renamed(POLICIES["ucb1"], frozen=True, tag="renamed"):
    pass


class Softer(ADVERSARIES["zero-best"], frozen=True, tag="softer"):
    pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's that can be imported by its name."""
    (tmp_path / "own_classes.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_classes

    yield own_classes
    del sys.modules["own_classes"]


@pytest.fixture
def result(own):
    return armrace.simulate(
        own.Renamed(), own.Coins(number=4), own.Softer(), 5.0, horizon=200, replications=2
    )


def test_it_can_be_printed_and_reported(result, capsys):
    print(result)
    print_result(result)
    assert "0.8" in capsys.readouterr().out
    assert result.means.tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert "200" in render_report(Comparison([result]), "story", "A summary.", "armrace", {})


def test_it_can_be_saved_and_read_where_its_classes_are_unknown(result, tmp_path):
    file = tmp_path / "result.parquet"
    result.save(file)
    script = """
import sys
import armrace
from armrace.cli.tables import print_result

result = armrace.load(sys.argv[1])
print(result, result.means.tolist() == [0.2, 0.4, 0.6000000000000001, 0.8])
print_result(result)
"""
    answer = python("-c", script, str(file), cwd="/", env=os.environ, check=True)
    assert "True" in answer.stdout
    assert "own_classes" not in answer.stderr


def test_its_specification_names_the_classes_and_runs_it_again(result):
    assert result.spec["policy"] == {"name": "own_classes:Renamed"}
    assert result.spec["environment"] == {"name": "own_classes:Coins", "number": 4}
    assert result.spec["adversary"]["name"] == "own_classes:Softer"
    again = armrace.simulate(**result.spec)
    assert again.spec == result.spec
    assert again.rows.equals(result.rows)
