"""Sorting and counting by whole columns gives what comparing record by record gives."""

import itertools
import math

import numpy as np
import pytest

import holdall

KIND = {
    "TypeDef:Struct": ["i", "u", "f", "d", "s", "e", "b", "t", "o", "h"],
    "required": ["i", "u", "f", "d", "s", "e", "b", "t"],
    "properties": {
        "i": {"TypeDef:Int16": True},
        "u": {"TypeDef:Uint64": True},
        "f": {"TypeDef:Float32": True},
        "d": {"TypeDef:Float64": True},
        "s": {"TypeDef:String": True},
        "e": {"TypeDef:Enum": True, "enum": ["z", "a", "m"]},
        "b": {"TypeDef:Boolean": True},
        "t": {"TypeDef:Timestamp": True},
        "o": {"TypeDef:Float64": True},
        "h": {"TypeDef:Float16": True},
    },
}
FLOATS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 2.0, -2.0, 0.25]


def rows(count):
    rng = np.random.default_rng(7)
    for n in rng.integers(0, 1000, count).tolist():
        row = {
            "i": n % 7 - 3,
            "u": (1 << 64) - 1 - n % 5,
            "f": FLOATS[n % 10],
            "d": FLOATS[n % 9],
            "s": "ü" * (n % 3) + str(n % 4),
            "e": "zam"[n % 3],
            "b": n % 2 == 0,
            "t": np.datetime64(n % 11 - 5, "ns"),
        }
        yield row | ({"o": FLOATS[n % 10], "h": 0.5} if n % 4 else {})


@pytest.fixture(scope="module", params=["map", "read"])
def records(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("sorted") / "a.mt"
    holdall.build(path, rows(300), KIND, sync=False)
    return holdall.open(path, io=request.param)["records"].records()


def rank(value, name):
    """What a value is sorted by, ascending."""
    if value is None:
        return (2, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, "zam".index(value) if name == "e" else value)


@pytest.mark.parametrize("name", KIND["TypeDef:Struct"])
def test_sort(records, name):
    for some in (records, records[250:20:-3], records[[5, 3, 3, 200]], records.where("b=true"), records[:0]):
        values = some.values(name)
        places = list(some._range) if isinstance(some, holdall.Records) else some.positions.tolist()
        up = sorted(range(len(values)), key=lambda at: rank(values[at], name))
        assert some.sort(name).positions.tolist() == [places[at] for at in up]
        # Descending, equal ones keep their order, and NaN and absent ones are last.
        down = [list(g) for _, g in itertools.groupby(up, key=lambda at: rank(values[at], name))]
        last = [g for g in down if rank(values[g[0]], name)[0]]
        down = [g for g in down if not rank(values[g[0]], name)[0]][::-1] + last
        assert some.sort(f"-{name}").positions.tolist() == [places[at] for at in itertools.chain(*down)]


@pytest.mark.parametrize("names", [(name,) for name in KIND["TypeDef:Struct"]] + [("e", "o"), ("s", "b", "i")])
def test_groups(records, names):
    for some in (records, records[250:20:-3], records[[5, 3, 3, 200]], records[:0]):
        columns = [some.values(name) for name in names]
        expected = {}
        for row in zip(*columns):
            expected[repr(row)] = expected.get(repr(row), 0) + 1
        found = {}
        for value, count in some.groups(*names):
            value = (value,) if len(names) == 1 else value
            found[repr(value)] = count
        if "t" not in names:
            assert found == expected
        counts = [count for _, count in some.groups(*names)]
        assert counts == sorted(expected.values(), reverse=True)
