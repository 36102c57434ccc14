"""Catalogues: discovery, registration, and classes that are named by their path."""

import threading
from typing import ClassVar

import pytest

import armrace
from armrace.adversaries import ADVERSARIES, Adversary
from armrace.adversaries.plain import ZeroBest
from armrace.catalogue import Catalogue, discover
from armrace.environments import ENVIRONMENTS, Environment
from armrace.errors import InvalidParameter, UnknownName
from armrace.policies import POLICIES, Policy
from armrace.policies.ucb import Ucb1
from armrace.specification import Specification, display_name


class Plain(Ucb1, frozen=True, tag="plain-ucb"):
    """UCB1 that nobody registered."""


PATH = f"{__name__}:Plain"


@pytest.mark.parametrize(
    ("catalogue", "package", "base"),
    [
        (ADVERSARIES, "armrace.adversaries", Adversary),
        (ENVIRONMENTS, "armrace.environments", Environment),
        (POLICIES, "armrace.policies", Policy),
    ],
)
def test_a_package_is_searched_for_its_members(catalogue, package, base) -> None:
    found = discover(package, base)
    assert {member.tag() for member in found} == set(catalogue)
    assert all(member.__module__.startswith(package) for member in found)


def test_members_are_ordered_by_family_and_name() -> None:
    families = [member.family for member in ADVERSARIES.values()]
    assert list(dict.fromkeys(families)) == ["paper", "literature", "daily life", "searched"]
    for family in families:
        names = [name for name, member in ADVERSARIES.items() if member.family == family]
        assert names == sorted(names)


def test_a_package_gives_its_classes_by_name() -> None:
    from armrace import adversaries

    assert adversaries.ZeroBest is ZeroBest
    assert "ZeroBest" in adversaries.__all__
    with pytest.raises(AttributeError, match=r"module 'armrace\.adversaries' has no attribute 'N"):
        _ = adversaries.Nothing


def test_a_class_outside_the_catalogue_is_written_by_its_path_and_read_back() -> None:
    written = Plain().to_builtins()
    assert written["name"] == PATH
    assert POLICIES.make(written) == Plain()
    assert POLICIES.make(PATH) == Plain()
    assert display_name(PATH) == "plain-ucb"


def test_a_class_that_cannot_be_imported_serves_its_own_process() -> None:
    class Local(Ucb1, frozen=True, tag="local-ucb"):
        """Defined inside a function, as in a notebook."""

    written = Local().to_builtins()
    assert "<locals>" in written["name"]
    assert POLICIES.make(written) == Local()


def test_a_registered_class_has_its_tag_as_name_and_is_written_by_path() -> None:
    catalogue = Catalogue(Policy, [Ucb1])
    assert catalogue.register(Plain) is Plain
    assert catalogue.register(Plain) is Plain
    assert catalogue.make("plain-ucb") == Plain()
    assert not catalogue.is_permanent(Plain)
    assert list(catalogue) == ["ucb1", "plain-ucb"]


def test_names_that_clash_are_refused() -> None:
    class Thief(Ucb1, frozen=True, tag="exp3"):
        """Takes a name that is in use."""

    with pytest.raises(InvalidParameter) as refusal:
        armrace.register(Thief)
    assert str(refusal.value) == (
        f"{Thief.path()} must have a tag of its own: 'exp3' is the name of "
        "armrace.policies.exp3:Exp3."
    )
    assert POLICIES.find("exp3") is not Thief


def test_a_class_that_is_defined_again_replaces_the_former() -> None:
    def define() -> type[Policy]:
        class Again(Ucb1, frozen=True, tag="again"):
            """As in a cell of a notebook that is run twice."""

        return Again

    catalogue = Catalogue(Policy)
    first, second = catalogue.register(define()), catalogue.register(define())
    assert first is not second
    assert catalogue.find("again") is second


class Untagged(Policy, frozen=True):
    """A class without a name."""


class Dotted(Ucb1, frozen=True, tag="a.b"):
    """A name that --set could not tell from a parameter."""


@pytest.mark.parametrize("member", [Untagged, Dotted])
def test_a_class_without_a_usable_tag_is_refused(member) -> None:
    with pytest.raises(InvalidParameter, match="must have a tag of letters, digits and hyphens"):
        armrace.register(member)


@pytest.mark.parametrize("given", [5, "ucb1", int, Ucb1(), Specification], ids=str)
def test_only_classes_of_a_catalogue_can_be_registered(given) -> None:
    with pytest.raises(InvalidParameter, match="register takes a subclass of Policy, Adversary"):
        armrace.register(given)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no_such_module:Mine", "no module 'no_such_module' can be imported."),
        ("armrace.errors:Nothing", "the module armrace.errors has no Nothing."),
        ("a b:Mine", "a class is named as module:Class."),
        (":Mine", "a class is named as module:Class."),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(UnknownName) as refusal:
        POLICIES.find(name)
    assert str(refusal.value).startswith(f"there is no policy named {name!r}")
    assert str(refusal.value).endswith(sentence)


@pytest.mark.parametrize("field", ["kind", "tag", "start", "family", "parameters", "inspect"])
def test_a_parameter_must_not_hide_an_attribute(field: str) -> None:
    namespace = {"__module__": __name__, "__annotations__": {field: float}, field: 1.0}
    with pytest.raises(InvalidParameter) as refusal:
        type(Policy)("Hiding", (Policy,), namespace, frozen=True, tag="hiding")
    assert f"Hiding must not have a parameter {field!r}" in str(refusal.value)


class Base(Specification, frozen=True):
    """What the members of a catalogue of their own derive from."""

    kind: ClassVar[str] = "base"


class Late(Base, frozen=True, tag="late"):
    """A member that an entry point adds."""


class Other(Base, frozen=True, tag="other"):
    """A member that is there already."""


@pytest.fixture
def loading(monkeypatch):
    """A catalogue with an entry point, during whose loading another thread makes a call."""
    catalogue = Catalogue(Base, group="none.of.ours")
    found = []

    def begin(call) -> list[str]:
        thread = threading.Thread(target=lambda: found.append(call(catalogue)), daemon=True)

        class Point:
            name, value = "late", "late"

            def load(self):
                thread.start()
                thread.join(0.1)  # returns at once if the other thread does not wait
                found.append("loaded")
                return Late

        monkeypatch.setattr("armrace.catalogue.entry_points", lambda group: [Point()])
        assert set(catalogue) >= {"late"}
        thread.join(10)
        return found

    return begin


def test_a_name_that_another_thread_is_loading_is_waited_for(loading) -> None:
    assert loading(lambda catalogue: catalogue.find("late")) == ["loaded", Late]


def test_a_module_that_is_loaded_may_look_names_up(monkeypatch) -> None:
    catalogue = Catalogue(Base, group="none.of.ours")

    class Point:
        name, value = "late", "late"

        def load(self):
            assert list(catalogue) == ["other"]
            return Late

    monkeypatch.setattr("armrace.catalogue.entry_points", lambda group: [Point()])
    catalogue._add(Other)
    assert list(catalogue) == ["other", "late"]
