"""The decision service in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from armrace.files import check_new
from armrace.forensics import Audit
from armrace.service.engine import Engine
from armrace.service.keyring import DEFAULT_TENANT, Keyring
from armrace.service.log.store import Store
from armrace.service.operations.handlers import Session
from armrace.service.operations.inspection import (
    audit_of,
    back_up_store,
    export_rows,
    verify_store,
    write_rows,
)
from armrace.service.work import Principal
from armrace_client.answers import DecisionRow
from armrace_client.calls import Calls
from armrace_client.operations import AUDIT_LEVEL, Operation


class Service(Calls):
    """Experiments of one tenant, on a store.

    Every method that changes something returns when the change is durable. Methods are thread-safe;
    calls that wait for the store at the same time are served by one write.

    Args:
        store: where the logs are kept.
        keyring: the secrets; by default fresh ones that are not kept.
        tenant: whose experiments these are.
        clock: returns the time in milliseconds since 1970; by default the system's, which is read
            once, and a monotonic clock from then on.
        most_loaded: how many experiments are kept in memory.
    """

    def __init__(
        self,
        store: Store,
        keyring: Keyring | None = None,
        tenant: str = DEFAULT_TENANT,
        clock: Callable[[], int] | None = None,
        most_loaded: int = 1000,
    ) -> None:
        self.keyring = keyring or Keyring()
        self.tenant = tenant
        self.engine = Engine(store, self.keyring, clock, most_loaded)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Save snapshots and close the store."""
        self.engine.close()

    def _send(self, operation: Operation[Any], pick: Callable[[Any], Any] | None) -> Any:
        answer = self.engine.perform(operation, Principal(self.tenant))
        return answer if pick is None else pick(answer)

    @property
    def session(self) -> Session:
        """What operations of the tenant work with."""
        return Session(self.engine, Principal(self.tenant))

    def audit(self, name: str, level: float = AUDIT_LEVEL) -> Audit:  # type: ignore[override]
        """Look for traces of corruption in what was learned in the current generation.

        Args:
            name: the experiment.
            level: a bound on the probability that any statement of any audit is wrong.
        """
        session = self.session
        found: Audit = session.call(session.log_of(name), lambda work: audit_of(work, level))
        return found

    def rows(self, name: str) -> list[DecisionRow]:
        """Return all visits of an experiment with their rewards.

        Args:
            name: the experiment.
        """
        return list(export_rows(self.session, name))

    def export(  # type: ignore[override]  # writes the file whose content a client returns
        self, name: str, path: Path | str, *, overwrite: bool = False
    ) -> None:
        """Write all visits with their rewards into a file ending in .ndjson or .parquet.

        Args:
            name: the name of the experiment.
            path: the file to write.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        check_new(Path(path), overwrite=overwrite)
        write_rows(export_rows(self.session, name), path)

    def back_up(self, path: Path | str) -> None:  # type: ignore[override]  # to a place of choice
        """Verify all logs and write a copy of the store into a new file, while it is in use.

        Args:
            path: the file; open it with ``restored=True``. The file of secrets is copied apart.
        """
        back_up_store(self.session, path)

    def verify(self) -> int:
        """Check every record of every log against the digests that chain them.

        When an experiment is loaded, only what follows its latest snapshot is checked. Others are
        served meanwhile.

        Returns:
            The number of records.

        Raises:
            DamagedFile: a record is missing or was changed.
        """
        return verify_store(self.session)
