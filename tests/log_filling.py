"""Short ways to fill and read logs."""

from armrace.service.log.chain import Chain, head_of


def create(store, *names):
    """Create logs of one tenant; return their numbers."""
    with store.transaction(creates=True) as transaction:
        return [transaction.create_log("tenant", name) for name in names]


def append(transaction, log, *contents, subject=None):
    """Append records with these payloads to a log."""
    chain, head, records = Chain(b"", log), transaction.head(log), []
    for content in contents:
        records.append(chain.link(head, content, subject))
        head = head_of(records[-1])
    transaction.append(log, records)


def payloads(store, log):
    """Return what a log holds."""
    with store.transaction() as transaction:
        return [record.payload for record in transaction.read(log)]
