"""Forged names of decisions, of which none may be accepted.

``python -m torture.forgeries --tokens 1000000`` is the campaign.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter

from armrace.errors import ForeignTicket
from armrace.service.tokens import SigningKeys, TokenContent
from torture.campaign import Campaign

__all__ = ["forge"]

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def forge(tokens: int, seed: int = 1) -> int:
    """Show forged tokens to a service, and return how many it accepts.

    A third of them are valid ones with changed characters, a third are signed with another key, and
    a third are another tenant's.
    """
    rng = random.Random(seed)
    keys = SigningKeys({1: secrets.token_bytes(32), 2: secrets.token_bytes(32)})
    strangers = SigningKeys({2: secrets.token_bytes(32)})
    accepted = 0
    for number in range(tokens):
        content = TokenContent(rng.randrange(9), rng.getrandbits(40), rng.randrange(9), number)
        if number % 3 == 0:
            token = _changed(keys.sign("main", content), rng)
        elif number % 3 == 1:
            token = strangers.sign("main", content)
        else:
            token = keys.sign("other", content)
        try:
            keys.read("main", token)
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
    print(f"{asked.count} forged tokens: {found['accepted']} accepted.")


if __name__ == "__main__":
    main()
