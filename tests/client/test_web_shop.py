"""The shop of the examples decides by itself, and sells all the same when it cannot."""

import importlib.util
from pathlib import Path

import pytest

from armrace_client import LeasedExperiment
from armrace_client.answers import Lease, VisitAnswer, VisitList
from armrace_client.calls import Calls
from armrace_client.errors import ServiceUnreachable
from armrace_client.operations import Report

FILE = Path(__file__).parents[2] / "examples" / "web_shop.py"
WEIGHTS = [2**30, 2**31, 2**30]


@pytest.fixture(scope="module")
def program():
    specification = importlib.util.spec_from_file_location("web_shop", FILE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Service(Calls):
    def __init__(self, away=False):
        self.away, self.visits = away, []

    def _send(self, operation, pick):
        if self.away:
            raise ServiceUnreachable("away.")
        if isinstance(operation, Report):
            self.visits += operation.visits
            return pick(VisitList([VisitAnswer("accepted", "x")] * len(operation.visits)))
        arms = ["red", "green", "blue"]
        return Lease("lease", operation.name, arms, WEIGHTS, "00" * 32, 1, operation.visits, 0)


def test_every_visit_and_every_click_of_the_shop_is_reported(program):
    service = Service()
    with LeasedExperiment(service, "banner", linger=30) as experiment:
        seen = program.play(program.make_shop(experiment), 300, seed=1)
    assert all(seen.values())
    assert sorted(each.draw for each in service.visits) == list(range(300))
    assert 20 < sum(each.value == 1.0 for each in service.visits) < 100
    assert {each.source for each in service.visits} == {"web"}


def test_the_shop_shows_its_default_while_the_service_is_away(program):
    with LeasedExperiment(Service(away=True), "banner") as experiment:
        shop = program.make_shop(experiment)
        assert program.play(shop, 50, seed=1) == {"red": 50, "green": 0, "blue": 0}
        assert shop.test_client().get("/offer/forged").status_code == 302
