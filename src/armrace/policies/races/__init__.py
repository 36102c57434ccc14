"""The race: layered active arm elimination, its intervals and its leaping engine."""

from armrace.policies.races import state_relations as state_relations
