"""The race: layered active arm elimination, its intervals and its leaping engine."""
