"""Indices and weights as the papers print them."""

import math


def ucb1_index(mean, pulls, round_number):
    return math.inf if pulls == 0 else mean + math.sqrt(2 * math.log(round_number) / pulls)


def exp3_weights(losses, rate):
    least = min(losses)
    weights = [math.exp(-rate * (loss - least)) for loss in losses]
    return [weight / sum(weights) for weight in weights]
