"""Worlds by their seeds: a failing seed is printed and replays."""

from collections import Counter

from torture.campaign import Campaign
from torture.checker import check
from torture.world import START, World


def run(numbers: range) -> Counter[str]:
    """Run and check worlds, and return how much was simulated."""
    found: Counter[str] = Counter()
    for seed in numbers:
        world = World(seed)
        try:
            world.run()
            found["milliseconds"] += world.now - START
            check(world)
        except BaseException:
            print(f"seed {seed} fails: python -m torture --first {seed} --seeds 1", flush=True)
            raise
        found["answers"] += len(world.history)
        kept = (each.records.values() for each in world.store.commits)
        found["records"] += sum(len(records) for logs in kept for records in logs)
    return found


def main() -> None:
    """Run a campaign and print its figures."""
    campaign = Campaign("torture", "seeds", 1000, "Run the simulated service under faults.")
    asked = campaign.read_arguments()
    found = campaign.carry_out(run, together=20)
    print(
        f"{asked.count} seeds, {found['answers']} answers checked against {found['records']} "
        f"records, 0 contradictions; {found['milliseconds'] / 3.6e6:.0f} simulated hours."
    )
