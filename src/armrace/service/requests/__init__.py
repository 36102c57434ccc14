"""What can be asked of the ledger, one module for each kind of request."""
