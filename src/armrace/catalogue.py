"""Catalogues: the names of policies, attacks and environments.

A catalogue holds the classes that come with the package, those that installed packages declare as
entry points, and those that :func:`register` adds. Any other class can be named as
``module:Class``, on the command line and in saved specifications alike.
"""

from __future__ import annotations

import pkgutil
import re
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from armrace.errors import ArmraceError, BrokenExtension, InvalidParameter, UnknownName
from armrace.specification import Specification, defined_class

S = TypeVar("S", bound=Specification)
T = TypeVar("T", bound=type[Specification])

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PATH = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<name>\w+(?:\.\w+)*)")


def discover(package: str, base: type[S]) -> list[type[S]]:
    """Import all modules of a package and return the specifications that they define."""
    home = import_module(package)
    modules = [
        import_module(found.name)
        for found in pkgutil.walk_packages(home.__path__, prefix=f"{package}.")
    ]
    classes = {
        member
        for module in modules
        for member in vars(module).values()
        if _is_subclass(member, base) and member.__module__ == module.__name__ and _has_tag(member)
    }
    return sorted(classes, key=_place)


def _place(member: type[Specification]) -> tuple[int, str, str]:
    known = member.family in member.families
    position = member.families.index(member.family) if known else len(member.families)
    return position, member.family, member.tag()


def _is_subclass(found: Any, base: type[Specification]) -> bool:
    return isinstance(found, type) and issubclass(found, base) and found is not base


def _has_tag(member: type[Specification]) -> bool:
    """Whether a tag was given; msgspec takes the name of the class where none was."""
    return member.tag() != member.__name__


class Catalogue(Mapping[str, type[S]], Generic[S]):
    """Classes of specifications by name.

    Entry points are loaded when a name is looked up that the package itself does not define, or
    when the members are listed.

    Args:
        base: what all members are derived from.
        members: the classes that come with the package.
        group: the group of entry points that add members. A catalogue with a group is the one
            that :func:`register` and saved specifications use for ``base``.
    """

    def __init__(self, base: type[S], members: Iterable[type[S]] = (), group: str = "") -> None:
        self.base = base
        self.kind = base.kind
        self.group = group
        self._members: dict[str, type[S]] = {}
        self._permanent: set[type[S]] = set()
        self._pending = bool(group)
        self._loading = False
        self._lock = threading.RLock()
        for member in members:
            self._add(member)
            self._permanent.add(member)
        if group:
            base.catalogue = self

    @classmethod
    def of_package(cls, package: str, base: type[S], group: str = "") -> Catalogue[S]:
        """Return the catalogue of what :func:`discover` finds in a package."""
        return cls(base, discover(package, base), group)

    def __getitem__(self, name: str) -> type[S]:
        if name not in self._members:
            self._load_entry_points()
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        self._load_entry_points()
        return iter(list(self._members))

    def __len__(self) -> int:
        self._load_entry_points()
        return len(self._members)

    def __repr__(self) -> str:
        return f"<Catalogue of {self.kind}: {', '.join(self._members)}>"

    def register(self, member: type[S]) -> type[S]:
        """Add a class under its tag and return it.

        A class that is defined again, as in a notebook, replaces the earlier definition.
        """
        if not _is_subclass(member, self.base):
            raise InvalidParameter(f"only a subclass of {self.base.__name__} can be registered.")
        # Without waiting for another thread that loads them: this may be the body of a module that
        # the other thread is about to import, and each would wait for the other.
        self._load_entry_points(wait=False)
        self._add(member)
        return member

    def _add(self, member: type[S]) -> None:
        path, tag = member.path(), member.tag()
        if not _has_tag(member) or not _TAG.fullmatch(tag):
            raise InvalidParameter(
                f"{path} must have a tag of letters, digits and hyphens, as in "
                f'class {member.__name__}({self.base.__name__}, frozen=True, tag="my-{self.kind}")'
                f"; got {tag!r}."
            )
        other = self._members.get(tag)
        if other is not None and other.path() != path:
            raise InvalidParameter(
                f"{path} must have a tag of its own: {tag!r} is the name of {other.path()}."
            )
        self._members[tag] = member

    def _load_entry_points(self, *, wait: bool = True) -> None:
        """Load the entry points, once; by default wait for another thread that is loading them."""
        if not self._pending or not self._lock.acquire(blocking=wait):
            return
        try:
            # The lock is re-entrant, since a module that is loaded here may itself register a class
            # or look one up; it then finds what there is so far.
            if self._pending and not self._loading:
                self._load_all()
        finally:
            self._lock.release()

    def _load_all(self) -> None:
        self._loading = True
        try:
            for point in entry_points(group=self.group):
                self._load(point)
            self._pending = False
        finally:
            self._loading = False

    def _load(self, point: EntryPoint) -> None:
        """Add what an entry point names; a broken one is left out with a warning."""
        try:
            member = point.load()
            if not _is_subclass(member, self.base):
                raise InvalidParameter(f"it is not a subclass of {self.base.__name__}.")
            if member.tag() != point.name:
                raise InvalidParameter(f"the tag of the class is {member.tag()!r}.")
            self._add(member)
            self._permanent.add(member)
        except Exception as error:  # whatever an extension raises must not stop the others
            reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            if not isinstance(error, ArmraceError):
                reason = f"{type(error).__name__}: {reason}"
            warnings.warn(
                f"the entry point {point.name!r} of {self.group} ({point.value}) is left out: "
                f"{reason}.",
                BrokenExtension,
                stacklevel=2,
            )

    def is_permanent(self, member: type[Specification]) -> bool:
        """Whether another process finds the class by its tag.

        That holds for the package's own classes and for entry points, not for what the running
        program registered.
        """
        if member not in self._permanent:
            self._load_entry_points()
        return member in self._permanent

    def find(self, name: str) -> type[S]:
        """Return the class with this name, or with this path as ``module:Class``."""
        if not isinstance(name, str):
            raise UnknownName.among(self.kind, name, self)
        if name in self._members:
            return self._members[name]
        if ":" in name:
            return self._find_by_path(name)
        self._load_entry_points()
        if name not in self._members:
            raise UnknownName.among(self.kind, name, self)
        return self._members[name]

    def _find_by_path(self, path: str) -> type[S]:
        member: Any = defined_class(path) or self._import(path)
        if not _is_subclass(member, self.base):
            raise InvalidParameter(
                f"{self.kind} {path!r} must be a subclass of {self.base.__name__}; "
                f"got {member!r:.100}."
            )
        return member  # type: ignore[no-any-return]  # checked one line above

    def _import(self, path: str) -> Any:
        parts = _PATH.fullmatch(path)
        if not parts:
            raise UnknownName(
                f"there is no {self.kind} named {path!r}; a class is named as module:Class."
            )
        module = self._import_module(parts["module"], path)
        found: Any = module
        for attribute in parts["name"].split("."):
            found = getattr(found, attribute, None)
        if found is None:
            raise UnknownName(
                f"there is no {self.kind} named {path!r}: the module {parts['module']} has no "
                f"{parts['name']}."
            )
        return found

    def _import_module(self, module: str, path: str) -> Any:
        try:
            return sys.modules.get(module) or import_module(module)
        except ModuleNotFoundError as error:
            missing = "" if error.name == module else f", which {module} imports"
            raise UnknownName(
                f"there is no {self.kind} named {path!r}: no module {error.name!r} can be "
                f"imported{missing}."
            ) from None
        except ArmraceError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
            raise InvalidParameter(
                f"{self.kind} {path!r} cannot be used: importing {module} raises {reason}."
            ) from error

    def make(self, description: S | str | Mapping[str, Any]) -> S:
        """Make a specification from itself, from a name, or from plain data with a ``name``."""
        if isinstance(description, self.base):
            return description
        if isinstance(description, str):
            return self.find(description).from_parameters({})
        if not isinstance(description, Mapping):
            raise InvalidParameter(
                f"{self.kind} must be a name, a specification or plain data with a name; "
                f"got {description!r}."
            )
        values = dict(description)
        return self.find(str(values.pop("name", ""))).from_parameters(values)

    def class_named(self, name: str, module: str) -> type[S]:
        """Return the class whose Python name this is, for the ``__getattr__`` of a package."""
        for member in self._permanent:
            if member.__name__ == name:
                return member
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def class_names(self) -> list[str]:
        """Return the Python names of the classes that come with the package."""
        return sorted(m.__name__ for m in self._permanent if m.__module__.startswith("armrace."))


def register(member: T) -> T:
    """Give a policy, an attack or an environment of your own a name; also as a decorator.

    Args:
        member: a subclass of ``Policy``, ``Adversary`` or ``Environment`` with a tag.

    Returns:
        The same class, which can be named by its tag from then on, wherever a policy, an attack
        or an environment can be named in this process.
    """
    if not isinstance(member, type) or not issubclass(member, Specification):
        raise InvalidParameter(
            f"register takes a subclass of Policy, Adversary or Environment; got {member!r:.100}."
        )
    if member.catalogue is None:
        raise InvalidParameter(
            "register takes a subclass of Policy, Adversary or Environment; "
            f"got {member.__name__}, which is none of them."
        )
    member.catalogue.register(member)
    return member
