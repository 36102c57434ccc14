"""Forged names of decisions and leases, of which none may be accepted.

``python -m torture.forgeries --tokens 1000000`` is the campaign.
"""

import random
import secrets
from collections import Counter

from armrace.errors import ForeignTicket
from armrace.service.keyring import DECISION, LEASE, SigningKeys, TokenContent
from torture.campaign import Campaign

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def forge(tokens: int, seed: int = 1) -> int:
    """Show forged names of decisions and leases to a service, and return how many it accepts.

    A quarter of them are valid ones with changed characters, a quarter are signed with another key,
    a quarter are another tenant's, and a quarter are names of leases that are shown as decisions,
    or the other way round.
    """
    rng = random.Random(seed)
    keys = SigningKeys({1: secrets.token_bytes(32), 2: secrets.token_bytes(32)})
    strangers = SigningKeys({2: secrets.token_bytes(32)})
    accepted = 0
    for number in range(tokens):
        content = TokenContent(rng.randrange(9), rng.getrandbits(40), rng.randrange(9), number)
        kind = rng.choice([DECISION, LEASE])
        if number % 4 == 0:
            token = _changed(keys.sign("main", content, kind), rng)
        elif number % 4 == 1:
            token = strangers.sign("main", content, kind)
        elif number % 4 == 2:
            token = keys.sign("other", content, kind)
        else:
            token = keys.sign("main", content, DECISION + LEASE - kind)
        try:
            keys.read("main", token, kind)
            accepted += 1
        except ForeignTicket:
            pass
    return accepted


def _changed(token: str, rng: random.Random) -> str:
    letters = list(token)
    while "".join(letters) == token:
        for _ in range(rng.randint(1, 3)):
            letters[rng.randrange(len(letters))] = rng.choice(_ALPHABET)
    return "".join(letters)


def _run(numbers: range) -> Counter[str]:
    return Counter(accepted=forge(len(numbers), seed=numbers.start + 1))


def main() -> None:
    """Run a campaign and print its figures."""
    description = "Show forged tokens to the service."
    campaign = Campaign("torture.forgeries", "tokens", 100_000, description)
    asked = campaign.read_arguments()
    found = campaign.carry_out(_run, together=10_000)
    print(f"{asked.count} forged names of decisions and leases: {found['accepted']} accepted.")


if __name__ == "__main__":
    main()
