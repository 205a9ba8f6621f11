"""`Features`: what is declared is what is encoded, whatever holds the rows; bad rows are refused and never quoted."""

import copy
import json
import math

import gymnasium
import numpy as np
import pandas
import polars
import pyarrow
import pytest

from tacit.errors import InvalidInput, UnknownName
from tacit.features import Features

SPACE = Features(
    age=(18, 90), tired=bool, ward=["a", "b", "c"], products=[("age", "tired")], missing={"age": 54, "ward": "c"}
)
COLUMNS = {"age": [18.0, 90.0, 36.0], "tired": [True, False, True], "ward": ["a", "b", "c"], "ignored": ["x", "y", "z"]}
RAW = np.array(  # intercept, age, tired, ward (3), age*tired: written down by hand
    [[1, -1, 1, 1, 0, 0, -1], [1, 1, 0, 0, 1, 0, 0], [1, -0.5, 1, 0, 0, 1, -0.5]]
)


def structured(columns):
    kinds = [("age", "f8"), ("tired", "?"), ("ward", "U3")]
    return np.array(list(zip(*(columns[name] for name, _ in kinds), strict=True)), dtype=kinds)


FRAMES = {
    "dict of columns": lambda: COLUMNS,
    "pandas": lambda: pandas.DataFrame(COLUMNS),
    "pandas with extension types": lambda: pandas.DataFrame(COLUMNS).convert_dtypes(),
    "pandas categories": lambda: pandas.DataFrame(COLUMNS).astype({"ward": "category"}),
    "polars": lambda: polars.DataFrame(COLUMNS),
    "Arrow": lambda: pyarrow.table(COLUMNS),
    "structured array": lambda: structured(COLUMNS),
    "list of dicts": lambda: [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
}


@pytest.mark.parametrize("kind", FRAMES)
def test_rows_of_every_kind_are_the_same_vectors(kind):
    # the norm: 1 + 1/3 + 1/2 + 1 + 1/6 = 3
    assert math.isclose(SPACE.norm, math.sqrt(3.0))
    scaled = RAW / math.sqrt(3.0)
    expected = scaled / np.maximum(1.0, np.linalg.norm(scaled, axis=1))[:, None]
    found = SPACE.encode(FRAMES[kind]())
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert (np.linalg.norm(found, axis=1) <= 1.0).all()


def test_one_dict_is_one_row_and_a_plain_array_has_the_declared_order():
    one = SPACE.encode({name: values[2] for name, values in COLUMNS.items()})
    np.testing.assert_array_equal(one, SPACE.encode(COLUMNS)[2:])
    plain = Features(a=(0, 1), b=(0, 2))
    np.testing.assert_array_equal(plain.encode(np.array([[1.0, 1.0]])), plain.encode({"b": [1.0], "a": [1.0]}))


def test_values_out_of_range_are_clipped_and_their_share_is_told_only_where_data_are():
    wild = {**COLUMNS, "age": [-1e9, math.inf, 36.0]}
    np.testing.assert_array_equal(SPACE.encode(wild), SPACE.encode(COLUMNS))
    assert SPACE.clipped_share(wild) == pytest.approx(2 / 3)
    assert SPACE.clipped_share(COLUMNS) == 0.0


@pytest.mark.parametrize("nothing", [None, math.nan])
@pytest.mark.parametrize("frame", [dict, pandas.DataFrame, lambda c: polars.DataFrame(c, strict=False), pyarrow.table])
def test_what_is_missing_is_what_was_declared(nothing, frame):
    ward = None if frame is not dict else nothing
    holes = {"age": [nothing, 90.0], "tired": [True, False], "ward": ["a", ward]}
    declared = {"age": [54.0, 90.0], "tired": [True, False], "ward": ["a", "c"]}
    np.testing.assert_array_equal(SPACE.encode(frame(holes)), SPACE.encode(declared))


QUOTED = "c0ffee"
BAD = {
    "column missing": ({"age": [20], "tired": [True]}, "ward"),
    "column missing in a dict": ([{"age": 20, "tired": True, "ward": "a"}, {"age": 20, "tired": True}], "ward"),
    "category undeclared": ({"age": [20], "tired": [True], "ward": [QUOTED]}, "declared"),
    "no rows": ({"age": [], "tired": [], "ward": []}, "at least one"),
    "missing without a declaration": ({"age": [20], "tired": [None], "ward": ["a"]}, "missing"),
    "a text for a number": ({"age": [QUOTED], "tired": [True], "ward": ["a"]}, "numbers"),
    "a number for a truth": ({"age": [20], "tired": [0.77], "ward": ["a"]}, "true or false"),
    "lengths": ({"age": [20, 21], "tired": [True], "ward": ["a"]}, "same length"),
    "duplicated index": (pandas.DataFrame(COLUMNS, index=[0, 1, 1]), "index"),
    "columns twice": (pandas.DataFrame([[1, 1, 1, 1]], columns=["age", "age", "tired", "ward"]), "different names"),
    "not rows": (7, "rows must be"),
    "too few columns": (np.zeros((3, 2)), "columns"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_and_never_quoted(case):
    rows, words = BAD[case]
    with pytest.raises(InvalidInput, match=words) as caught:
        SPACE.encode(rows)
    assert QUOTED not in str(caught.value)
    assert "0.77" not in str(caught.value)


DECLARATIONS = {
    "no columns": lambda: Features(),
    "bounds": lambda: Features(a=(1, 1)),
    "infinite": lambda: Features(a=(0, math.inf)),
    "one category": lambda: Features(a=["x"]),
    "categories twice": lambda: Features(a=["1", 1]),
    "another type": lambda: Features(a=float),
    "product of nothing": lambda: Features(a=bool, products=[("a", "b")]),
    "missing of nothing": lambda: Features(a=bool, missing={"b": 1}),
    "missing out of range": lambda: Features(a=(0, 1), missing={"a": 2}),
    "missing undeclared": lambda: Features(a=["x", "y"], missing={"a": "z"}),
    "norm": lambda: Features(a=bool, norm=0.0),
    "norm, tiny": lambda: Features(a=(0, 1), norm=1e-320),
    "d > 200": lambda: Features(a=list(range(200))),
    "declared twice": lambda: Features({"a": bool}, a=bool),
    "names twice": lambda: Features({"a=1": bool}, a=[1, 2]),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_bad_declarations_are_refused(case):
    with pytest.raises(InvalidInput):
        DECLARATIONS[case]()


def test_two_hundred_numbers_are_the_limit():
    assert Features(a=list(range(199))).dimension == 200


def test_the_json_is_strict_and_gives_the_same_declaration():
    assert Features.from_json(SPACE.to_json()) == SPACE == copy.deepcopy(SPACE)
    assert hash(Features.from_json(SPACE.to_json())) == hash(SPACE)
    plain = json.loads(SPACE.to_json())
    for wrong in (
        {**plain, "more": 1},
        {**plain, "format_version": 2},
        {key: value for key, value in plain.items() if key != "norm"},
        {**plain, "norm": "1"},
        {**plain, "columns": [["age", "float", [18.0, 90.0]]]},
        {**plain, "columns": [["age", "number", ["18", 90.0]]]},
        {**plain, "intercept": 1},
        [],
    ):
        with pytest.raises(InvalidInput):
            Features.from_json(json.dumps(wrong))


def test_it_never_changes():
    with pytest.raises(AttributeError, match="never change"):
        SPACE.norm = 2.0


def test_observations_of_gymnasium():
    spaces = gymnasium.spaces
    space = spaces.Dict({"pos": spaces.Box(-1.0, 3.0, (2,)), "door": spaces.Discrete(3), "lit": spaces.MultiBinary(1)})
    declared = Features.from_gymnasium(space, norm=1.0)
    assert declared.names == ("intercept", "door=0", "door=1", "door=2", "lit[0]", "pos[0]", "pos[1]")
    seen = {"pos": np.array([3.0, 1.0]), "door": 2, "lit": np.array([0])}
    np.testing.assert_allclose(declared.encode(seen), np.array([[1, 0, 0, 1, 0, 1, 0]]) / math.sqrt(3.0), atol=1e-12)
    box = Features.from_gymnasium(spaces.Box(0.0, 1.0, (3,)))
    assert box.encode(np.full(3, 0.5)).shape == (1, 4)
    with pytest.raises(InvalidInput, match="finite"):
        Features.from_gymnasium(spaces.Box(-np.inf, np.inf, (1,)))
    with pytest.raises(UnknownName):
        declared.encode({"pos": np.zeros(2), "door": 1})
