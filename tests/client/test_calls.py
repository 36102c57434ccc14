"""Every operation is a method of the clients, with its docstring, arguments and answer."""

import inspect
import re
from contextlib import suppress
from pathlib import Path

import pytest

import armrace_client
from armrace_client import AsyncClient, Client, DecisionAnswer, answers, operations
from armrace_client.calls import Calls, Method, Methods
from armrace_client.errors import InvalidParameter, NotRunning, TooManyOpen
from armrace_client.operations import OPERATIONS
from processes import python

METHODS = {name: each for name, each in vars(Methods).items() if isinstance(each, Method)}


class Recorder(Calls):
    """Keeps what is sent, and answers what it was told to."""

    def __init__(self, answer=None):
        self.sent, self.answer = [], answer

    def _send(self, operation, pick):
        self.sent.append(operation)
        return self.answer if pick is None else pick(self.answer)


def test_operations_and_methods_agree():
    assert set(METHODS) == {*OPERATIONS, "decide_many", "reward_many"}
    for name, kind in OPERATIONS.items():
        recorder = Recorder()
        method = getattr(recorder, name)
        assert list(inspect.signature(method).parameters) == list(kind.__struct_fields__)
        assert method.__doc__ == METHODS[name].__doc__ == kind.__doc__
        assert method.__name__ == name


def test_each_method_makes_its_own_operation():
    for name, kind in OPERATIONS.items():
        recorder = Recorder()
        needed = [
            each.name
            for each in inspect.signature(kind).parameters.values()
            if each.default is each.empty
        ]
        values = {"value": 1.0, "missing": 0.0, "arms": ["a", "b"], "rewards": []}
        with suppress(AttributeError):  # there is no answer to pick from
            getattr(recorder, name)(**{each: values.get(each, "x") for each in needed})
        assert type(recorder.sent[0]) is kind


def test_answers_are_picked():
    assert Recorder(answers.Names(["ads"])).names() == ["ads"]
    assert Recorder(answers.Names([])).delete("ads") == []
    assert Recorder(answers.RewardStatus("duplicate")).reward("x", 1) == "duplicate"
    listed = answers.RewardList([answers.RewardAnswer("accepted")])
    assert Recorder(listed).reward_many([("x", 1)]) == listed.rewards
    visits = answers.VisitList([answers.VisitAnswer("accepted", "x")])
    assert Recorder(visits).report("ads", "lease", []) == visits.visits


def test_many_decisions_are_made_or_refused():
    made = DecisionAnswer("x", "ads", "a", 0.5)
    refusal = answers.RefusedDecision(1, "too-many-open", "no room.")
    recorder = Recorder(answers.DecisionList([made, None], [refusal]))
    assert recorder.decide_many("ads", 2) == [made]
    assert recorder.sent == [operations.DecideBatch("ads", [operations.Visit()] * 2)]
    with pytest.raises(TooManyOpen, match="no room"):
        Recorder(answers.DecisionList([None], [refusal])).decide_many("ads", 1)
    paused = answers.RefusedDecision(0, "not-running", "paused.")
    with pytest.raises(NotRunning):
        Recorder(answers.DecisionList([None], [paused])).decide_many("ads", 1)
    assert Recorder(answers.DecisionList([], [])).decide_many("ads", 0) == []
    with pytest.raises(InvalidParameter, match="count must be a whole number of at least 0"):
        recorder.decide_many("ads", -1)


def test_rulings_take_decisions_or_one_alone():
    recorder, decision = Recorder(), DecisionAnswer("x", "ads", "a", 0.5)
    recorder.void("ads", decision)
    recorder.void("ads", [decision, "y", 7])
    recorder.void("ads", sources="bot")
    assert [each.decisions for each in recorder.sent] == [["x"], ["x", "y", 7], None]
    assert recorder.sent[2].sources == ["bot"]


def test_rulings_take_files_of_identifiers(tmp_path):
    recorder, file = Recorder(), tmp_path / "bots.txt"
    file.write_text("first\n\n 17 \n")
    recorder.void("ads", file)
    recorder.void("ads", units=file)
    assert (recorder.sent[0].decisions, recorder.sent[1].units) == (["first", 17], ["first", "17"])
    file.write_bytes(b"\xff")
    for path in (file, tmp_path / "missing", tmp_path):
        with pytest.raises(InvalidParameter, match=f"units: cannot read {path}: "):
            recorder.void("ads", units=path)


def test_both_clients_have_the_same_methods_with_the_same_descriptions():
    one, other = Client("http://127.0.0.1"), AsyncClient("http://127.0.0.1")
    for name in METHODS:
        assert inspect.signature(getattr(one, name)) == inspect.signature(getattr(other, name))
        assert getattr(one, name).__doc__ == getattr(other, name).__doc__
    coroutine = other.names()
    assert inspect.iscoroutine(coroutine)
    coroutine.close()


def test_types_of_answers_are_known_to_mypy(tmp_path):
    program = tmp_path / "typed.py"
    program.write_text("""
from armrace_client import AsyncClient, Client, DecisionAnswer

async def work(client: Client, other: AsyncClient, made: DecisionAnswer) -> None:
    reveal_type(client.decide("ads", unit="visitor"))
    reveal_type(await other.decide("ads"))
    reveal_type(client.reward(made, 1.0))
    reveal_type(await other.reward_many([(made, 1.0)]))
    reveal_type(client.names())
    reveal_type(client.void("ads", [made], sources="bot", preview=True))
    client.decide(7)
    client.void("ads", standing=True)
""")
    found = python(
        *("-m", "mypy", "--strict", "--cache-dir"),
        tmp_path / "cache",
        program,
        env={"MYPYPATH": str(Path(armrace_client.__file__).parents[1])},
    ).stdout
    assert re.findall(r'Revealed type is "(?:.*answers\.)?(.*)"', found) == [
        "DecisionAnswer",
        "DecisionAnswer",
        "Literal['accepted'] | Literal['duplicate']",
        "RewardAnswer]",
        "list[str]",
        "RulingAnswer",
    ]
    assert re.findall(r"error: .*\[(.*)\]", found) == ["arg-type", "call-arg"]
