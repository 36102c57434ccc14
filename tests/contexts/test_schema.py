"""The schema of features: encoding to hand-computed values, and refusals that name the feature."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armrace.contexts import (
    MISSING,
    BadFeature,
    ContextShape,
    MissingFeature,
    Schema,
    UnknownFeature,
)
from armrace.errors import InvalidParameter

FEATURES = {
    "age": {"type": "number", "low": 18, "high": 80},
    "member": {"type": "boolean"},
    "device": {"type": "category", "values": ["ios", "android"]},
}
LEAVES = {"device": True, "age": [30, 50]}
VISITOR = {"age": 49, "member": True, "device": "web"}
SCHEMA = Schema.declare(FEATURES, LEAVES)
FORGIVING = Schema.declare(FEATURES, {**LEAVES, "member": True}, missing="bucket")


def test_a_visitor_is_encoded_as_worked_out_by_hand() -> None:
    code = SCHEMA.encode(VISITOR)
    assert struct.unpack("<3h", code.features) == (0, 4096, 2)
    assert SCHEMA.vector(code.features).tolist() == [0.5, 0, 0.5, 0, 0, 0.5]
    assert code.leaf == 7  # other device (2) times three ages, and the middle age
    assert SCHEMA.shape == ContextShape(dimension=6, leaves=9)
    assert SCHEMA.leaf_names()[7] == "device=other, 30 <= age < 50"
    assert SCHEMA.coordinate_names() == [
        "1", "age", "member", "device=ios", "device=android", "device=other",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("age", "grid", "leaf"),
    [
        (80, 4096, 2),
        (90, 4096, 2),
        (33.5, -2048, 1),
        (18.01, -4095, 0),
        (30, -2510, 1),
        (-1e300, -4096, 0),
    ],
)
def test_numbers_are_clipped_and_rounded_but_cut_before_that(
    age: float, grid: int, leaf: int
) -> None:
    code = SCHEMA.encode({**VISITOR, "age": age, "device": "ios"})
    assert struct.unpack("<3h", code.features)[0] == grid
    assert code.leaf == leaf


def test_what_is_missing_has_a_coordinate_and_a_leaf_of_its_own() -> None:
    code = FORGIVING.encode({"device": None})
    assert struct.unpack("<3h", code.features) == (MISSING,) * 3
    assert FORGIVING.vector(code.features).tolist() == [0.5, 0, 0.5, 0, 0.5, 0, 0, 0.5]
    assert FORGIVING.leaf_names()[code.leaf] == "device=other, age missing, member missing"
    assert len(FORGIVING.leaf_names()) == FORGIVING.shape.leaves == 3 * 4 * 3
    assert len(FORGIVING.coordinate_names()) == FORGIVING.shape.dimension == 8


def test_buckets_depend_on_the_key_and_the_name() -> None:
    schema = Schema.declare(
        {name: {"type": "category", "buckets": 128 // 4} for name in ("country", "city")}
    )
    texts = [f"place {number}" for number in range(200)]

    def buckets(key: bytes) -> list[tuple[int, ...]]:
        codes = (schema.encode({"country": text, "city": text}, key) for text in texts)
        return [struct.unpack("<2h", code.features) for code in codes]

    assert buckets(b"one key") == buckets(b"one key") != buckets(b"another key")
    assert {country for country, _ in buckets(b"one key")} == set(range(32))
    assert any(country != city for country, city in buckets(b"one key"))


@given(
    st.fixed_dictionaries(
        {
            "age": st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "member": st.none() | st.booleans(),
            "device": st.none() | st.text(max_size=200),
        }
    )
)
def test_every_visitor_has_a_vector_of_length_at_most_1_and_a_leaf(visitor: dict) -> None:
    if isinstance(visitor["age"], int) and abs(visitor["age"]) > 1e300:
        visitor["age"] = 0
    code = FORGIVING.encode(visitor, b"key")
    assert len(code.features) == 6
    assert float(np.square(FORGIVING.vector(code.features)).sum()) <= 1 + 1e-12
    assert 0 <= code.leaf < FORGIVING.shape.leaves


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"age": None}, MissingFeature, "lacks the feature 'age'"),
        ({"agee": 3}, UnknownFeature, "no feature 'agee'; there are age, member, device"),
        ({"age": "49"}, BadFeature, "'age' must be a number; got '49'"),
        ({"age": True}, BadFeature, "'age' must be a number"),
        ({"age": math.nan}, BadFeature, "'age' must be a finite number"),
        ({"age": 10**400}, BadFeature, "'age' must be a finite number"),
        ({"member": 1}, BadFeature, "'member' must be true or false; got 1"),
        ({"device": "\ud800"}, BadFeature, r"'device' must be valid Unicode; got '\\ud800'"),
        ({"device": 7}, BadFeature, "'device' must be a text; got 7"),
        ({"device": "x" * 201}, BadFeature, "at most 200 characters; got 201"),
    ],
)
def test_bad_contexts_are_refused_by_name(change: dict, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        SCHEMA.encode({**VISITOR, **change})


@pytest.mark.parametrize(
    ("features", "leaves", "words"),
    [
        ({"age": {"type": "number", "low": 3, "high": 3}}, {}, "low below its high"),
        ({"age": {"type": "number", "low": 0, "high": 1e16}}, {}, "low below its high"),
        ({"age": {"type": "age"}}, {}, "Invalid value 'age'"),
        ({"age": {"type": "number", "low": 0}}, {}, "missing required field `high`"),
        ({"device": {"type": "category"}}, {}, "either values or buckets"),
        ({"device": {"type": "category", "values": ["a", "a"]}}, {}, "must differ"),
        ({"device": {"type": "category", "buckets": 129}}, {}, "in \\[2, 128\\]; got 129"),
        ({"": {"type": "boolean"}}, {}, "1 to 200 characters; got 0"),
        ({str(n): {"type": "boolean"} for n in range(65)}, {}, "at most 64 features; got 65"),
        ({n: {"type": "category", "buckets": 64} for n in "ab"}, {}, "128 coordinates of its"),
        (FEATURES, {"city": True}, "'city', which is not declared"),
        (FEATURES, {"device": [1]}, "must say true for the feature 'device'"),
        (FEATURES, {"age": True}, "list finite cut points for the number 'age'"),
        (FEATURES, {"age": [50, 30]}, "cut points of the number 'age' must increase"),
        (FEATURES, {"age": list(range(300))}, "at most 256 leaves; got 301"),
    ],
)
def test_bad_schemas_are_refused(features: dict, leaves: dict, words: str) -> None:
    with pytest.raises((InvalidParameter, UnknownFeature), match=words):
        Schema.declare(features, leaves)
