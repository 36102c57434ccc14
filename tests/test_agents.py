"""Agents that decide in Python meet what compiled policies meet, and can be attacked like them."""

import itertools
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import armrace
from armrace.agents import Game, PythonAgent
from armrace.cli.main import run
from armrace.environments import Bernoulli
from armrace.errors import InvalidParameter, UnknownName
from armrace.gymnasium import BanditEnv
from armrace.kernels.generics import decide, distribution, learn
from armrace.kernels.laws import visitors_between
from armrace.learner import Learner
from armrace.policies import POLICIES
from armrace.randomness import Purpose, stream_for
from armrace.red_team.search import search_cost
from armrace.red_team.target import Target
from armrace.simulation.experiment import make_experiment
from armrace.simulation.replication import live_attack, make_parts

SEED, ROUNDS, BUDGET = 3, 400, 20.0
MEANS = (0.6, 0.4, 0.3)
FIGURES = ["regret", "pseudo_regret", "clean_regret", "corruption", "seen_corruption", "pulls"]


class Imitator:
    """Decides as a compiled policy does, round by round in Python, with the same random numbers."""

    policy, declares = "exp3", True

    def __init__(self, arms: int, horizon: int, seed: int) -> None:
        self.state = POLICIES.make(self.policy).start(arms, horizon)
        self.stream = stream_for(SEED, Purpose.LEARNER, 0)
        self.arms = arms
        if self.declares:
            self.probabilities = self.law

    def law(self) -> np.ndarray:
        weights = np.zeros(self.arms)
        distribution(self.state, weights)
        return weights

    def choose(self) -> int:
        self.ticket = decide(self.state, self.stream)
        return self.ticket.arm

    def learn(self, arm: int, reward: float) -> None:
        assert arm == self.ticket.arm
        learn(self.state, self.ticket, reward)


class SilentImitator(Imitator):
    policy, declares = "ucb1", False


class First:
    """Always plays the first arm."""

    def __init__(self, arms: int, horizon: int, seed: int) -> None:
        self.seed = seed

    def choose(self) -> int:
        return 0

    def learn(self, arm: int, reward: float) -> None:
        pass


@pytest.mark.parametrize("attack", ["zero-best", "zero-best-when-likely", "adaptive-constant"])
@pytest.mark.parametrize("account", ["largest", "seen"])
def test_an_agent_meets_exactly_what_the_compiled_policy_meets(attack: str, account: str) -> None:
    told = {"adversary": attack, "budget": BUDGET, "horizon": ROUNDS, "replications": 1}
    told |= {"seed": SEED, "account": account}
    compiled = armrace.simulate("exp3", list(MEANS), **told)
    python = armrace.simulate(PythonAgent(agent=Imitator), list(MEANS), **told)
    assert compiled.final["corruption"][0] > 0
    assert python.rows.select(FIGURES).equals(compiled.rows.select(FIGURES))


def test_an_agent_that_declares_nothing_meets_the_same_where_no_attack_asks() -> None:
    told = {"adversary": "zero-best", "budget": BUDGET, "horizon": ROUNDS, "replications": 1}
    compiled = armrace.simulate("ucb1", list(MEANS), seed=SEED, **told)
    python = armrace.simulate(PythonAgent(agent=SilentImitator), list(MEANS), seed=SEED, **told)
    assert python.rows.select(FIGURES).equals(compiled.rows.select(FIGURES))


def game_of(**told: object) -> Game:
    experiment = make_experiment(policy=PythonAgent(agent=First), **told)
    parts = make_parts(experiment, 0)
    return Game(parts, live_attack(parts))


def test_what_an_attack_sees_of_an_agent_that_declares_nothing() -> None:
    game = game_of(environment=[0.5, 0.5], horizon=10)
    seen = game.parts.policy_state.weights
    game.step(0)
    game.step(1)
    # 0.5 each; then 0.95 * 0.5 + 0.05 for the first; then 0.95 * 0.525 for it, and the rest.
    assert seen == pytest.approx([0.49875, 0.50125])
    game.step(1, probabilities=[0.25, 0.75])
    assert seen.tolist() == [0.25, 0.75]


def test_the_features_of_the_next_visitor_are_those_of_the_engine() -> None:
    shop = {"name": "linear-visitors", "levels": [0.5, 0.6], "slope": 0.1}
    met: list[np.ndarray] = []

    class Reader(First):
        def choose(self, features: np.ndarray) -> int:  # type: ignore[override]
            met.append(features)
            return 0

    rounds = 5000  # more than a chunk
    armrace.simulate(PythonAgent(agent=Reader), shop, horizon=rounds, replications=1, seed=SEED)
    experiment = make_experiment(policy="ucb1", environment=shop, horizon=rounds, seed=SEED)
    parts = make_parts(experiment, 0)
    expected = parts.crowd.vectors[visitors_between(parts.law, 4090, 4105)]
    assert np.array_equal(np.array(met[-rounds:])[4090:4105], expected)


@pytest.mark.parametrize("arm", [-1, 2, 0.5, None, "0"])
def test_an_arm_that_does_not_exist_is_refused(arm: object) -> None:
    with pytest.raises(InvalidParameter, match=r"arm must be a whole number in \[0, 1\]; got"):
        game_of(environment=[0.5, 0.5], horizon=10).step(arm)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given", [[1.0], [0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], [[0.5, 0.5]], ["much", "less"]]
)
def test_probabilities_that_are_none_are_refused(given: list[float]) -> None:
    with pytest.raises(InvalidParameter, match="probabilities must be 2 numbers"):
        game_of(environment=[0.5, 0.5], horizon=10).step(0, given)


def test_a_game_that_is_over_is_not_played_on() -> None:
    game = game_of(environment=[0.5, 0.5], horizon=1)
    game.step(0)
    with pytest.raises(InvalidParameter, match="all 1 rounds were played"):
        game.step(0)


@pytest.mark.parametrize("agent", ["nowhere:Agent", "armrace:Nothing", "armrace", ""])
def test_an_agent_that_cannot_be_imported_is_refused(agent: str) -> None:
    with pytest.raises(UnknownName, match="there is no agent named"):
        PythonAgent(agent=agent)


def test_what_is_no_agent_is_refused_and_what_needs_compiled_states_says_so() -> None:
    with pytest.raises(InvalidParameter, match="agent must be a class or a function"):
        PythonAgent(agent=5)
    with pytest.raises(InvalidParameter, match="got python-agent, which decides in Python"):
        Learner(PythonAgent(agent=First), arms=2, horizon=100)


def test_agents_that_one_function_makes_are_not_taken_for_one_another() -> None:
    def always(arm: int) -> type[First]:
        return type("Always", (First,), {"choose": lambda self: arm, "__qualname__": "<locals>.A"})

    makers = [always(0), always(1)]
    agents = [PythonAgent(agent=each) for each in (*makers, *makers)]
    played = [armrace.simulate(each, [0.9, 0.1], horizon=10, replications=1) for each in agents]
    assert [each.figure("pseudo_regret").mean for each in played] == pytest.approx([0, 8, 0, 8])
    assert agents[:2] == agents[2:]


def test_replications_have_seeds_of_their_own() -> None:
    seeds: list[int] = []

    def make(arms: int, horizon: int, seed: int) -> First:
        seeds.append(seed)
        return First(arms, horizon, seed)

    agent = PythonAgent(agent=make)
    armrace.simulate(agent, [0.5, 0.4], horizon=5, replications=3, seed=1)
    assert len(set(seeds)) == 3  # the first is also compiled for
    seeds.clear()
    armrace.simulate(agent, [0.5, 0.4], horizon=5, replications=3, seed=2)
    assert len(set(seeds)) == 3


def test_an_agent_is_found_by_its_name_and_audited() -> None:
    named = {"name": "armrace.agents:PythonAgent", "agent": f"{__name__}:First"}
    given = PythonAgent(agent=First)
    assert armrace.POLICIES.make(given.to_builtins()) == given
    if __name__ != "__main__":
        assert given.to_builtins()["agent"].endswith(":First")
    result = armrace.simulate(given, [0.5, 0.4], horizon=50, replications=2, audit=0.05)
    assert result.audit_summary() is not None
    assert named["name"] == given.to_builtins()["name"]


class Greedy:
    """Plays the best average so far: a few zeros on the best arm fool it for good."""

    calls = itertools.count()

    def __init__(self, arms: int, horizon: int, seed: int) -> None:
        self.paid, self.played = np.ones(arms), np.ones(arms)

    def choose(self) -> int:
        next(Greedy.calls)
        return int(np.argmax(self.paid / self.played))

    def learn(self, arm: int, reward: float) -> None:
        self.paid[arm] += reward
        self.played[arm] += 1


def test_the_red_team_breaks_an_agent_at_the_cost_that_it_has_announced() -> None:
    target = Target(
        policy=PythonAgent(agent=Greedy), environment=Bernoulli(means=(0.6, 0.4)), budget=10,
        horizon=200,
    )  # fmt: skip
    cost = search_cost(target, "few")
    before = next(Greedy.calls)
    verdict = armrace.redteam(
        target.policy, [0.6, 0.4], budget=10, horizon=200, effort="few", seed=1, progress=False
    )
    calls = next(Greedy.calls) - before - 1
    played = verdict.search.replications * target.horizon
    # Besides, one round for each class of attacks that is compiled.
    assert played <= calls <= played + 100
    assert cost.rounds == 200
    assert verdict.search.replications <= cost.replications <= 1.5 * verdict.search.replications
    assert cost.seconds_a_round > 0
    # Without an attack it loses some 5 of 40, by its own early luck; fooled, most of them.
    assert verdict.held_out.mean > 25


def test_the_command_says_beforehand_what_a_search_costs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    PythonAgent(agent=First)
    words = [
        "redteam",
        "armrace.agents:PythonAgent",
        "--means",
        "0.6,0.4",
        "--budget",
        "5",
        "--horizon",
        "50",
    ]
    assert run([*words, "--set", f"agent={__name__}:First"]) == 0
    shown = capsys.readouterr().err
    assert "replications of 50 rounds: " in shown
    assert "calls of the agent, about " in shown


def test_only_the_cost_of_agents_is_said() -> None:
    target = Target(
        policy=POLICIES.make("ucb1"), environment=Bernoulli(means=(0.6, 0.4)), budget=9, horizon=9
    )
    with pytest.raises(InvalidParameter, match="got ucb1"):
        search_cost(target)


VISITORS = {"name": "linear-visitors", "levels": (0.5, 0.6), "slope": 0.1}


@pytest.mark.parametrize("environment", [MEANS, VISITORS], ids=["alike", "visitors"])
def test_gymnasium_finds_nothing_wrong(environment: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = gymnasium.make(
            "armrace.gymnasium:armrace/Bandit-v0", environment=environment, horizon=50
        )
        check_env(made.unwrapped)


@pytest.mark.parametrize("attack", ["zero-best", "two-phase"])
def test_an_episode_is_a_replication_of_the_engine(attack: str) -> None:
    told = {"adversary": attack, "budget": BUDGET, "horizon": ROUNDS}
    compiled = armrace.simulate("exp3", list(MEANS), replications=1, seed=SEED, **told)
    environment = BanditEnv(MEANS, **told)
    environment.reset(seed=SEED)
    agent, over, collected = Imitator(len(MEANS), ROUNDS, 0), False, 0.0
    while not over:
        environment.declare(agent.law())
        arm = agent.choose()
        seen, reward, ended, over, info = environment.step(np.int64(arm))
        agent.learn(arm, reward)
        collected += reward
        assert not ended
        assert seen[arm] == 1.0
        assert seen[len(MEANS)] == reward
    assert seen[-1] == 1.0
    assert info == {name: compiled.final[name][0] for name in info}
    assert info["corruption"] > 0
    pulls = compiled.final["pulls"][0].to_list()
    assert sum(pulls) == ROUNDS
    assert 0 < collected < ROUNDS


def test_each_reset_begins_another_replication_and_a_seed_the_first() -> None:
    environment = BanditEnv(horizon=40)

    def play(seed: int | None = None) -> list[float]:
        environment.reset(seed=seed)
        return [environment.step(np.int64(0))[1] for _ in range(40)]

    first, second = play(5), play()
    assert first != second
    assert play(5) == first
    assert play() == second


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="reset must be called"):
        BanditEnv().step(np.int64(0))


@pytest.mark.parametrize("action", [0.7, "0", None, np.array([1])])
def test_an_action_that_is_no_arm_is_refused(action: object) -> None:
    bandit = BanditEnv()
    bandit.reset(seed=1)
    with pytest.raises(InvalidParameter, match=r"arm must be a whole number in \[0, 1\]; got"):
        bandit.step(action)  # type: ignore[arg-type]
