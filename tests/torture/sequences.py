"""Random sequences of operations on every store, against a model of a few lines.

The model knows nothing of logs, learners or windows in order: it keeps what was said of each visit,
and from that works out each answer and the counts. Two experiments share a store, and one is kept
in memory, so that each is thrown away and loaded all the time.

``python -m torture.sequences --examples 10000`` is the campaign.
"""

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from armrace.errors import NotRunning, Outdated
from armrace.service import MemoryStore, Service, engine, work
from armrace.service.keyring import Keyring
from armrace.service.log.sqlite import SqliteStore
from armrace.service.work import Principal
from armrace_client.calls import RewardItem
from armrace_client.operations import LeasedVisit
from databases import Postgres
from serving import Clock, is_replay
from torture.campaign import MEMORY, Campaign

WINDOW = 10
FEATURES = {
    "device": {"type": "category", "buckets": 3},
    "age": {"type": "number", "low": 18, "high": 80},
}
ARMS = ["a", "b", "c"]
POLICIES = {"ads": "ucb1", "shop": "optimistic-log-barrier"}
GUARDRAILS = {"latency": {"low": 0, "high": 2, "worse": "higher"}}
HOLDOUTS = {"ads": 0.0, "shop": 0.4}
NAMES = st.sampled_from([*POLICIES])
VALUES = st.sampled_from([0.0, 0.5, 1.0])
SUSPICIONS = st.sampled_from([None, 0.2, 0.9])
REQUESTS, UNITS = st.sampled_from([None, "r1", "r2"]), st.sampled_from([None, None, "u1", "u2"])
SOURCES = st.sampled_from([None, "mill", "site"])
LABELS = st.sampled_from([None, {"place": "top"}, {"place": "side"}])
PARTS = st.sampled_from(["one", "two", "three"])
METRICS = st.sampled_from([None, {"latency": 0.5}, {"latency": 1.5}])
VERDICTS = st.sampled_from(["retract", "void", "hold", "release"])


class Seen:
    """What was said of a visit."""

    def __init__(self, time, request=None, unit=None, source=None, labels=None, editor=None):
        self.time, self.request, self.unit, self.editor = time, request, unit, editor
        self.source, self.labels = source, labels or {}
        self.origins = [({source}, self.labels)]
        """The sources and labels of the visit, and of the visit with its reward."""
        self.reward = self.verdict = self.metrics = None
        self.parts: dict[str | None, tuple[float, Any]] = {}
        self.is_held = False
        self.conflicts = 0

    def is_open(self, now):
        return now < self.time + 1000 * WINDOW

    @property
    def standing(self):
        return self.verdict or ("hold" if self.is_held else "release")

    def fits(self, source, label):
        """Whether a visit, alone or with its reward, is selected."""
        return any(
            (source is None or source in sources) and (label or {}).items() <= labels.items()
            for sources, labels in self.origins
        )


class Model:
    """What was said of each visit of an experiment."""

    def __init__(self):
        self.visits: dict[str, Seen] = {}
        self.holds: dict[tuple, bool] = {}
        self.leases: dict[str, dict[int, str]] = {}
        self.paused = self.deleted = False
        self.unsure = False
        """Whether a visit that was voided had another reward, which need not be counted later."""

    def known(self, request, unit, now):
        for kind, key in (("request", request), ("unit", unit)):
            same = [
                name
                for name, seen in self.visits.items()
                if key is not None and getattr(seen, kind) == key and seen.verdict != "void"
            ]
            if same and self.visits[same[-1]].is_open(now):
                return same[-1]
        return None

    def reward(self, name, item, now):
        """Return the answer of a reward, and remember it."""
        if self.deleted:
            return "unknown"
        seen = self.visits[name]
        if item.part in seen.parts:
            if seen.parts[item.part] == (item.value, item.metrics):
                return "duplicate"
            seen.conflicts += 1
            self.unsure |= seen.verdict == "void"
            return "conflict"
        if not seen.is_open(now):
            return "expired"
        is_first = not seen.parts
        seen.parts[item.part] = item.value, item.metrics
        seen.reward = min(sum(value for value, _ in seen.parts.values()), 1.0)
        brought = [metrics["latency"] for _, metrics in seen.parts.values() if metrics]
        seen.metrics = {"latency": min(sum(brought), 2.0)} if brought else None
        labels = {**seen.labels, **(item.labels or {})}
        source = item.source or seen.source
        seen.origins.append(({seen.source, item.source}, labels))
        seen.is_held = (
            seen.is_held
            or item.suspicion == 0.9
            or any(
                stands and held in (None, source) and dict(wanted).items() <= labels.items()
                for (held, wanted), stands in self.holds.items()
            )
        )
        if is_first:
            seen.source, seen.labels = source, labels
        return "accepted"

    def changed(self, verdict, chosen):
        """Return the visits whose standing a ruling changes."""
        found = []
        for name in chosen:
            seen = self.visits[name]
            if seen.standing == "void":
                changes = verdict == "release"
            else:
                is_said = verdict == "void" or seen.reward is not None
                changes = verdict != seen.standing and is_said
            if changes:
                found.append(name)
        return found


class Requests(RuleBasedStateMachine):
    """Operations in any order, with restarts and a clock that moves."""

    decisions, leases = Bundle("decisions"), Bundle("leases")
    settle = "window"
    accumulates = False
    policy: str | None = None
    """The policy of all experiments, which then tell visitors apart."""

    def seen(self, *about):
        """Return the context of a visit, which depends on what is said of it."""
        if self.policy is None:
            return {}
        number = sum(map(ord, repr(about)))
        return {"context": {"device": f"device {number % 4}", "age": number % 90}}

    def __init__(self):
        super().__init__()
        self.clock, self.keyring = Clock(), Keyring()
        self.models, self.owners, self.latest = {}, {}, {}
        self.patches = [
            patch.object(work, "monotonic_ns", lambda: 10**6 * self.clock.now),
            patch.object(engine, "_WORTH_SAVING", 5),
        ]
        for each in self.patches:
            each.start()
        self.open_store()
        self.start()
        for name in POLICIES:
            self.create(name)

    def open_store(self):
        self.store = MemoryStore()
        self.store.is_shared = True

    def reopen(self):
        pass

    def start(self):
        self.service = Service(self.store, self.keyring, clock=self.clock, most_loaded=1)
        self.service.engine.snapshot_step = 7

    def create(self, name):
        more = {"policy": POLICIES[name], "settle": self.settle, "quarantine": 0.5}
        more |= {"holdout": HOLDOUTS[name], "guardrails": GUARDRAILS}
        more |= {"accumulate": self.accumulates}
        if self.policy is not None:
            more |= {"policy": self.policy, "context": FEATURES, "leaves": {"device": True}}
        self.service.create(name, ARMS, 0, window=WINDOW, horizon=1000, seed=1, **more)
        self.models[name] = Model()
        self.latest.pop(name, None)

    def now(self, name):
        """Return the time of an experiment, which never goes back."""
        now = self.service.engine.call(name, lambda work: work.time, Principal("main"))
        assert now >= self.latest.get(name, 0)
        self.latest[name] = now
        return now

    def made(self, name, decision, **said):
        self.models[name].visits[decision] = Seen(self.now(name), **said)
        self.owners[decision] = name, self.models[name]
        return decision

    # --- visits ---------------------------------------------------------------------------

    @rule(
        target=decisions,
        name=NAMES,
        request=REQUESTS,
        unit=UNITS,
        source=SOURCES,
        labels=LABELS,
        editor=st.sampled_from([None, None, None, "b"]),
    )
    def decide(self, name, request, unit, source, labels, editor):
        model, now = self.models[name], self.now(name)
        said = {"request": request, "unit": unit, "source": source, "labels": labels}
        if editor is not None:
            said["unit"] = None
        known = model.known(request, said["unit"], now)
        act, arguments = (self.service.decide, (name,))
        if editor is not None:
            act, arguments = self.service.record, (name, editor)
        if model.paused and known is None:
            with pytest.raises(NotRunning):
                act(*arguments, **said, **self.seen(request))
            return multiple()
        made = act(*arguments, **said, **self.seen(request))
        assert made.repeated == (known is not None)
        if known is not None:
            assert made.decision == known
            return multiple()
        assert editor in (None, made.arm)
        return self.made(name, made.decision, **said, editor=editor)

    @rule(
        rewards=st.lists(
            st.builds(RewardItem, decisions, VALUES, SOURCES, SUSPICIONS, LABELS, METRICS, PARTS),
            max_size=4,
        )
    )
    def reward(self, rewards):
        """Reward at once what may be of several experiments."""
        expected = []
        if not self.accumulates:
            rewards = [item._replace(part=None) for item in rewards]
        for item in rewards:
            name, model = self.owners[item.decision]
            now = 0 if model.deleted else self.now(name)
            expected.append(model.reward(item.decision, item, now))
        answers = self.service.reward_many(rewards)
        assert [answer.status for answer in answers] == expected

    @rule(target=leases, seconds=st.sampled_from([5.0, 100.0]))
    def lease(self, seconds):
        self.now("shop")
        if self.models["shop"].paused:
            with pytest.raises(NotRunning):
                self.service.lease("shop", 4, seconds)
            return multiple()
        lease = self.service.lease("shop", 4, seconds)
        self.models["shop"].leases[lease.lease] = {}
        return lease, self.models["shop"]

    @rule(
        target=decisions,
        lease=leases,
        visits=st.lists(
            st.builds(
                LeasedVisit,
                st.integers(0, 4),
                st.one_of(st.none(), VALUES),
                source=SOURCES,
                suspicion=SUSPICIONS,
                labels=LABELS,
            ),
            max_size=4,
        ),
    )
    def report(self, lease, visits):
        given, model = lease
        now = 0 if model.deleted else self.now("shop")
        visits = [replace(each, **self.seen(each.draw)) for each in visits]
        answers = self.service.report("shop", given.lease, visits)
        new = []
        for visit, answer in zip(visits, answers, strict=True):
            is_new, expected = self.reported(given, model, visit, answer.decision, now)
            assert answer.status == expected
            new += [answer.decision] if is_new else []
        return multiple(*new)

    def reported(self, lease, model, visit, decision, now):
        """Return whether a draw is new, and the answer to its report."""
        if model.deleted:
            return False, "unknown"
        if now >= lease.expires:
            return False, "expired"
        if visit.draw >= lease.visits:
            return False, "invalid"
        if self.accumulates and visit.value is not None:
            return False, "invalid"
        drawn = model.leases[lease.lease]
        is_new = visit.draw not in drawn
        if is_new and model.paused:
            return False, "invalid"
        if is_new:
            drawn[visit.draw] = decision
            model.visits[decision] = Seen(now, source=visit.source, labels=visit.labels)
            self.owners[decision] = "shop", model
        said = "duplicate"
        if visit.value is not None:
            item = RewardItem(decision, visit.value, visit.source, visit.suspicion, visit.labels)
            said = model.reward(drawn[visit.draw], item, now)
        assert decision in (drawn[visit.draw], None)
        return is_new, "accepted" if is_new else said

    # --- rulings --------------------------------------------------------------------------

    @rule(
        verdict=VERDICTS,
        chosen=st.lists(decisions, min_size=1, max_size=3),
        looks=st.booleans(),
    )
    def rule_about(self, verdict, chosen, looks):
        name, model = self.owners[chosen[0]]
        if not model.deleted:
            own = {each: None for each in chosen if self.owners[each][1] is model}
            self.make_ruling(name, verdict, [*own], looks, decisions=[*own])

    @rule(
        name=NAMES,
        verdict=VERDICTS,
        source=SOURCES,
        label=LABELS,
        standing=st.booleans(),
        looks=st.booleans(),
    )
    def rule_by_origin(self, name, verdict, source, label, standing, looks):
        if source is None and label is None:
            return
        model = self.models[name]
        chosen = [each for each, seen in model.visits.items() if seen.fits(source, label)]
        more: dict[str, Any] = {"sources": source, "labels": label}
        if verdict in ("hold", "release"):
            more["standing"] = standing
        self.make_ruling(name, verdict, chosen, looks, **more)
        if more.get("standing"):
            model.holds[source, tuple((label or {}).items())] = verdict == "hold"

    def make_ruling(self, name, verdict, chosen, looks, **selection):
        """Make a ruling, perhaps after a look at what it would change."""
        self.now(name)
        model, act = self.models[name], getattr(self.service, verdict)
        changed = model.changed(verdict, chosen)
        if looks:
            seen = act(name, preview=True, **selection)
            voids = sum(v.verdict == "void" for v in model.visits.values())
            assert (seen.visits, seen.changed) == (len(chosen), len(changed))
            assert seen.before.decisions == len(model.visits) - voids
            self.service.pause(name) if not model.paused else self.service.resume(name)
            with pytest.raises(Outdated):
                act(name, head=seen.head, **selection)
            self.service.resume(name) if not model.paused else self.service.pause(name)
            selection["head"] = act(name, preview=True, **selection).head
        answer = act(name, **selection)
        assert (answer.visits, answer.changed) == (len(chosen), len(changed))
        for each in changed:
            model.visits[each].verdict = verdict

    # --- the experiments ------------------------------------------------------------------

    @rule(name=NAMES, paused=st.booleans())
    def change_phase(self, name, paused):
        self.now(name)
        (self.service.pause if paused else self.service.resume)(name)
        self.models[name].paused = paused

    @rule(name=NAMES)
    def start_afresh(self, name):
        before = self.service.describe(name).generation
        assert self.service.start_afresh(name).generation == before + 1

    @rule(name=NAMES, again=st.sampled_from([False, False, True]))
    def delete(self, name, again):
        """Delete an experiment and create it again, now and then."""
        if again:
            self.service.finish(name)
            assert name not in self.service.delete(name, without_export=True)
            self.models[name].deleted = True
            self.create(name)

    @rule(seconds=st.sampled_from([0.001, 3, 9.999, 25, -100]))
    def move_clock(self, seconds):
        self.clock.move(seconds)

    @rule(clean=st.booleans())
    def restart(self, clean):
        if clean:
            self.service.close()
            self.reopen()
            self.start()
            self.latest = {}  # the clock may have been set back
        else:
            self.service.engine._shards.clear()

    @invariant()
    def counts_agree(self):
        for name, model in self.models.items():
            now, view = self.now(name), self.service.describe(name)
            visits = [seen for seen in model.visits.values() if seen.verdict != "void"]
            closed = [seen for seen in visits if not seen.is_open(now)]
            counted = [s for s in closed if s.reward is not None and s.standing == "release"]
            assert view.decisions == len(visits)
            assert view.open == len(visits) - len(closed)
            assert model.unsure or view.conflicts == sum(seen.conflicts for seen in visits)
            assert sum(arm.rewarded for arm in view.arms) == len(counted)
            withheld = sum(seen.reward is not None for seen in closed) - len(counted)
            assert sum(arm.withheld for arm in view.arms) == withheld
            total = sum(arm.mean * arm.closed for arm in view.arms if arm.closed)
            assert total == pytest.approx(sum(seen.reward for seen in counted))
            brought = [seen.metrics["latency"] for seen in counted if seen.metrics]
            (watched,) = view.guardrails
            assert sum(arm.count for arm in watched.arms) == len(brought)
            found = sum(arm.mean * arm.count for arm in watched.arms if arm.count)
            assert found == pytest.approx(sum(brought))
            if HOLDOUTS[name]:
                self.holdout_agrees(view.holdout, [seen for seen in closed if not seen.editor])

    def holdout_agrees(self, found, tossed):
        assert found.visits + found.policy_visits == len(tossed)
        earned = (found.mean or 0) * found.visits + (found.policy_mean or 0) * found.policy_visits
        counted = [s for s in tossed if s.reward is not None and s.standing == "release"]
        assert earned == pytest.approx(sum(seen.reward for seen in counted))

    def teardown(self):
        try:
            assert all(is_replay(self.service, name) for name in POLICIES)
            self.service.close()
        finally:
            for each in self.patches:
                each.stop()


class SqliteRequests(Requests):
    """In a file."""

    def open_store(self):
        self.folder = tempfile.mkdtemp(dir=MEMORY)
        self.reopen()

    def reopen(self):
        self.store = SqliteStore(Path(self.folder) / "log.db")

    def teardown(self):
        super().teardown()
        shutil.rmtree(self.folder)


class PostgresRequests(Requests):
    """In a schema of a database, whose clock is the test's."""

    place = ""
    numbers = itertools.count()

    def open_store(self):
        self.schema = f"sequence{next(self.numbers)}"
        self.reopen()

    def reopen(self):
        from armrace.service.log.postgres import PostgresStore

        clock = self.clock

        class Store(PostgresStore):
            @contextmanager
            def transaction(self, *arguments, **more):
                with super().transaction(*arguments, **more) as transaction:
                    transaction.time = clock
                    yield transaction

        self.store = Store(self.place, self.schema)

    def teardown(self):
        super().teardown()
        _drop(self.place, self.schema)


def _drop(place: str, schema: str) -> None:
    import psycopg

    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")  # type: ignore[call-overload]


def _kinds(base: type[Requests]) -> list[type[Requests]]:
    return [
        type(f"{base.__name__}_{settle}", (base,), {"settle": settle})
        for settle in ("window", "immediate")
    ]


class RequestsInContexts(Requests):
    """From visitors who differ."""

    policy = "leaf-barrier"


class RequestsThatAddUp(Requests):
    """With rewards that come in parts."""

    accumulates = True


FILES = [*_kinds(Requests), RequestsInContexts, RequestsThatAddUp, *_kinds(SqliteRequests)]
DATABASES = _kinds(PostgresRequests)

BUDGET = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def on_database(machine: type[Requests], place: str) -> type[Requests]:
    """Return requests to the database of this address."""
    return type(machine.__name__, (machine,), {"place": place, "numbers": itertools.count()})


@contextmanager
def _database() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="armrace-pg-", dir=MEMORY) as folder:
        server = Postgres(Path(folder))
        server.start()
        try:
            yield server.place
        finally:
            server.stop()


_TOGETHER = 100


def _run(numbers: range) -> Counter[str]:
    """Try sequences of one kind; which one, the number says."""
    kinds = [*FILES, *DATABASES]
    machine: Any = kinds[numbers.start // _TOGETHER % len(kinds)]
    budget = settings(BUDGET, max_examples=len(numbers), derandomize=False, database=None)
    if machine in DATABASES:
        with _database() as place:
            tried = seed(numbers.start)(on_database(machine, place))
            run_state_machine_as_test(tried, settings=budget)
    else:
        run_state_machine_as_test(seed(numbers.start)(machine), settings=budget)
    return Counter({machine.__name__: len(numbers)})


def main() -> None:
    """Run a campaign and print its figures."""
    campaign = Campaign("torture.sequences", "examples", 1000, "Compare with a model.")
    campaign.read_arguments()
    found = campaign.carry_out(_run, _TOGETHER)
    for kind, tried in found.items():
        print(f"{kind}: {tried} sequences of up to {BUDGET.stateful_step_count} requests agree.")


if __name__ == "__main__":
    main()
