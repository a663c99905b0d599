"""Records as pandas has them."""

import sys

import numpy as np
import pytest

import holdall

pd = pytest.importorskip("pandas")

KIND = {
    "TypeDef:Struct": ["id", "name", "score", "label", "ok", "when", "tags", "at", "n", "maybe", "half"],
    "required": ["id", "name", "score", "label", "ok", "when", "tags", "at"],
    "properties": {
        "id": {"TypeDef:Uint16": True},
        "name": {"TypeDef:String": True},
        "score": {"TypeDef:Float32": True},
        "label": {"TypeDef:Enum": True, "enum": ["cat", "dog"]},
        "ok": {"TypeDef:Boolean": True},
        "when": {"TypeDef:Timestamp": True},
        "tags": {"TypeDef:Array": True, "items": {"TypeDef:String": True}},
        "at": {"TypeDef:Struct": ["x"], "required": ["x"], "properties": {"x": {"TypeDef:Int8": True}}},
        "n": {"TypeDef:Int64": True},
        "maybe": {"TypeDef:String": True},
        "half": {"TypeDef:Float16": True},
    },
}
ROWS = [
    {
        "id": i,
        "name": f"row {i}",
        "score": i / 4,
        "label": "dog" if i % 3 else "cat",
        "ok": i % 2 == 0,
        "when": f"2026-01-0{i + 1}T00:00:00Z",
        "tags": ["a"] * i,
        "at": {"x": -i},
        **({"n": (1 << 60) + i, "maybe": "there"} if i % 2 else {"half": 0.5}),
    }
    for i in range(6)
]


@pytest.fixture(params=["map", "read"])
def records(request, tmp_path):
    holdall.build(tmp_path / "a.mt", ROWS, KIND)
    return holdall.open(tmp_path / "a.mt", io=request.param)["records"].records()


def test_to_pandas(records):
    frame = records.to_pandas()
    assert list(frame.columns) == KIND["TypeDef:Struct"] and len(frame) == 6
    types = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    assert types == {
        "id": "uint16", "name": "string", "score": "float32", "label": "category", "ok": "bool", "when": "datetime64[ns]",
        "tags": "object", "at": "object", "n": "Int64", "maybe": "string", "half": "object",
    }  # fmt: skip
    assert frame["name"].tolist() == [f"row {i}" for i in range(6)] and frame["score"].sum() == 15 / 4
    assert frame["label"].tolist() == ["cat", "dog", "dog", "cat", "dog", "dog"]
    assert list(frame["label"].cat.categories) == ["cat", "dog"]
    assert frame["when"][1] == pd.Timestamp("2026-01-02")
    assert frame["tags"][2] == ["a", "a"] and frame["at"][3] == {"x": -3}
    assert frame["n"][1] == (1 << 60) + 1 and frame["n"].isna().tolist() == [True, False] * 3
    assert frame["maybe"].isna().tolist() == [True, False] * 3 and frame["half"][0] == 0.5
    # It is its reader's.
    frame.loc[0, "score"] = 7
    assert frame["score"][0] == 7 and records[0]["score"] == 0
    some = records[4:0:-2].to_pandas()
    assert some["id"].tolist() == [4, 2] and list(some.index) == [0, 1]
    chosen = records.where("label=dog").to_pandas()
    assert chosen["id"].tolist() == [1, 2, 4, 5] == list(chosen.index) and len(records[:0].to_pandas()) == 0


def test_text_without_pyarrow(records, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for some in (records, records[::-1], records.where("label=dog"), records[[3, 0, 3]]):
        frame = some.to_pandas()
        assert frame["name"].tolist() == some.texts("name") == some.values("name")
        assert str(frame["maybe"].dtype) == "string" and some.texts("maybe") == some.values("maybe")
        assert some.texts("label") == some.values("label")
    with pytest.raises(holdall.UsageError):
        records[[1]].texts("id")
    with pytest.raises(holdall.NotFoundError):
        records[[1]].texts("none")


def test_a_frame_of_records_has_their_columns(records):
    frame = pd.DataFrame(records)
    assert list(frame.columns) == KIND["TypeDef:Struct"] and len(frame) == 6
    assert frame["id"].tolist() == list(range(6)) and frame["name"].tolist() == [f"row {i}" for i in range(6)]
    assert frame["tags"][2] == ["a", "a"] and frame["maybe"][1] == "there"
    assert frame["maybe"].isna().tolist() == [True, False] * 3
    assert pd.DataFrame(records[2:4])["id"].tolist() == [2, 3]
    assert pd.DataFrame(records.where("ok=true"))["id"].tolist() == [0, 2, 4]


def test_records_are_sequences(records):
    from collections.abc import Sequence

    assert isinstance(records, Sequence) and isinstance(records.where("ok=true"), Sequence)
    assert [r["id"] for r in reversed(records)] == [5, 4, 3, 2, 1, 0]
    assert np.asarray(records)["id"].tolist() == list(range(6))


def test_records_that_are_no_structs(tmp_path):
    holdall.build(tmp_path / "a.mt", [3, 1, 2], {"TypeDef:Int32": True})
    records = holdall.open(tmp_path / "a.mt")["records"].records()
    assert records.to_pandas()["records"].tolist() == [3, 1, 2]


def test_a_frame_comes_back_in_its_types(tmp_path):
    """Types that records do not have are those of the frame again: zones, durations, dates, decimals, periods."""
    import datetime
    from decimal import Decimal

    pytest.importorskip("pyarrow")
    days = [datetime.date(2020, 1, 1), datetime.date(1970, 1, 2), None]
    frame = pd.DataFrame(
        {
            "zone": pd.to_datetime(pd.Series(["2020-01-01", "2020-06-01", None])).dt.tz_localize("Europe/Paris"),
            "seconds": np.array(["2020-01-01", "NaT", "2021-01-01"], "M8[s]"),
            "nanos": np.array(["2020-01-01", "NaT", "2021-01-01"], "M8[ns]"),
            "wait": pd.to_timedelta([1, 2, None], "s"),
            "year": pd.period_range("2020", "2022", freq="Y"),
            "span": pd.interval_range(0, 3),
            "price": [Decimal("1.50"), None, Decimal("-2.25")],
            "day": days,
            "order": pd.Categorical(["lo", "hi", None], ["lo", "hi"], ordered=True),
            "loose": pd.Categorical(["b", "a", "b"]),
            "numbered": pd.Categorical([7, 5, 7], [7, 5], ordered=True),
            "id": np.arange(3),
            "lists": [[1], [2, None], None],
        }
    )
    holdall.build(tmp_path / "f.zt", frame)
    with holdall.open(tmp_path / "f.zt") as f:
        r = f["records"].records()
        back, some, two = r.to_pandas(), r[1:].to_pandas(), r[["zone", "order"]].to_pandas()
    plain = [name for name in frame if name != "lists"]
    pd.testing.assert_frame_equal(back[plain], frame[plain])
    pd.testing.assert_frame_equal(some[plain], frame[plain][1:].reset_index(drop=True))
    pd.testing.assert_frame_equal(two, frame[["zone", "order"]])
    assert [None if row is None else list(row) for row in back["lists"][:1]] == [[1.0]]
    assert back["lists"][1][0] == 2.0 and np.isnan(back["lists"][1][1]) and back["lists"][2] is None
    # The frame is the caller's.
    back.loc[0, "seconds"] = pd.Timestamp("1999-01-01")
    back.loc[0, "wait"] = pd.Timedelta(5, "s")
    assert r is not None and back["seconds"][0].year == 1999
