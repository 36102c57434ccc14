"""Declared parameters: checked the same way from Python, plain data and text."""

import math
from typing import Annotated, Literal

import numpy as np
import pytest

from armrace.catalogue import Catalogue
from armrace.environments import Environment, Table
from armrace.errors import InvalidParameter
from armrace.limits import Limits, check_number
from armrace.specification import Confidence, Specification, decode_special, encode_special


class Sample(Specification, frozen=True, tag="sample"):
    """A sample of every kind of parameter.

    Only the first line is its summary.
    """

    delta: Confidence = 0.05
    count: Annotated[int | None, Limits("how many", 1, 10)] = None
    rates: Annotated[tuple[float, ...], Limits("how likely", 0, 1)] = (0.5,)
    mode: Annotated[Literal["slow", "fast"], "which way"] = "slow"
    above: Annotated[float, Limits("how far", 0, low_open=True)] = 1.0
    free: float = 0.0

    def validate(self):
        if self.free > 1 and self.mode == "slow":
            raise InvalidParameter(f"free must be at most 1 when slow; got {self.free}.")


REFUSALS = [
    ({"delta": 0}, "delta must be in (0, 1); got 0."),
    ({"delta": 1.0}, "delta must be in (0, 1); got 1."),
    ({"delta": 1.5}, "delta must be in (0, 1); got 1.5."),
    ({"delta": math.nan}, "delta must be finite; got nan."),
    ({"delta": math.inf}, "delta must be finite; got inf."),
    ({"count": 0}, "count must be in [1, 10]; got 0."),
    ({"count": 11}, "count must be in [1, 10]; got 11."),
    ({"rates": (0.5, 1.2)}, "each of rates must be in [0, 1]; got 1.2."),
    ({"rates": (0.5, math.nan)}, "each of rates must be finite; got nan."),
    ({"mode": "medium"}, "mode must be one of slow, fast; got 'medium'."),
    ({"above": 0}, "above must be above 0; got 0."),
    ({"free": 2.0}, "free must be at most 1 when slow; got 2.0."),
]
FROM_PYTHON_ONLY = [
    ({"delta": "0.1"}, "delta must be a number; got '0.1'."),
    ({"delta": True}, "delta must be a number; got True."),
    ({"delta": None}, "delta must be a number; got None."),
    ({"count": 2.5}, "count must be a whole number; got 2.5."),
]


@pytest.mark.parametrize(("values", "sentence"), REFUSALS + FROM_PYTHON_ONLY, ids=str)
def test_a_bad_parameter_is_refused_by_the_constructor(values, sentence):
    with pytest.raises(InvalidParameter) as refusal:
        Sample(**values)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(("values", "sentence"), REFUSALS, ids=str)
def test_a_bad_parameter_is_refused_in_the_same_words_from_plain_data(values, sentence):
    with pytest.raises(InvalidParameter) as refusal:
        Sample.from_parameters(values)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize("text", ["nan", "1e400", "-inf", "2", "0", "one", ""])
def test_bad_text_is_refused(text):
    with pytest.raises(InvalidParameter):
        Sample.from_parameters({"delta": text})


def test_text_is_read_as_the_type_of_the_parameter():
    sample = Sample.from_parameters({"delta": "0.1", "count": "3", "mode": "fast"})
    assert sample == Sample(delta=0.1, count=3, mode="fast")


def test_an_unknown_parameter_is_refused_with_the_known_ones():
    with pytest.raises(InvalidParameter) as refusal:
        Sample.from_parameters({"colour": 1})
    assert str(refusal.value) == (
        "sample has no parameter 'colour'; its parameters are delta, count, rates, mode, above, "
        "free."
    )


@pytest.mark.parametrize("value", [math.nextafter(0, 1), 0.5, math.nextafter(1, 0)])
def test_an_open_range_reaches_up_to_its_ends(value):
    assert Sample(delta=value).delta == value


@pytest.mark.parametrize("value", [1, 10, None, np.int64(5)])
def test_a_closed_range_includes_its_ends(value):
    assert Sample(count=value).count == value


def test_a_specification_cannot_be_changed():
    with pytest.raises(AttributeError):
        Sample().delta = 0.5


def test_a_specification_survives_plain_data():
    sample = Sample(delta=0.25, count=3, rates=(0.1, 0.2), mode="fast", free=7.5)
    data = sample.to_builtins()
    assert data["name"] == "sample"
    assert Catalogue(Sample, [Sample]).make(data) == sample


def test_parameters_are_shown_as_declared():
    shown = {parameter.name: parameter for parameter in Sample.parameters()}
    assert shown["delta"].limits == "in (0, 1)"
    assert shown["delta"].default == 0.05
    assert shown["delta"].meaning == "probability with which the guarantee may fail"
    assert shown["mode"].type == "slow | fast"
    assert shown["mode"].meaning == "which way"
    assert shown["above"].limits == "above 0"


def test_limits_speak():
    assert str(Limits("", 0, 1)) == "in [0, 1]"
    assert str(Limits("", 0, 1, low_open=True)) == "in (0, 1]"
    assert str(Limits("", 0, 1, high_open=True)) == "in [0, 1)"
    assert str(Limits("", 3)) == "at least 3"


def test_a_number_just_beyond_a_large_limit_is_refused_with_its_digits():
    with pytest.raises(InvalidParameter) as refusal:
        check_number("horizon", 10**15 + 1, Limits("", 1, 10**15), whole=True)
    assert str(10**15 + 1) in str(refusal.value)


def test_an_array_survives_plain_data_bit_for_bit():
    array = np.array([[0.1, 1.0], [np.nextafter(0.3, 1), 0.0]])
    again = decode_special(np.ndarray, encode_special(array))
    assert again.shape == array.shape
    assert again.tobytes() == array.tobytes()


@pytest.mark.parametrize("rewards", [{}, {"shape": [1, 2]}, {"float64": "A" * 1000}])
def test_a_table_without_a_part_is_refused(rewards):
    with pytest.raises(
        InvalidParameter, match="rewards must be of the type ndarray; got "
    ) as refusal:
        Catalogue(Environment, [Table]).make({"name": "table", "rewards": rewards})
    assert len(str(refusal.value)) < 200
