"""Members of records as columns, their summaries, aggregates of groups, and conditions on two members."""

import pickle

import numpy as np
import pytest

import holdall

KIND = {
    "TypeDef:Struct": ["id", "label", "stars", "title", "caption", "width", "height", "flag", "at", "tags", "box"],
    "required": ["id", "label", "title", "width", "height", "tags"],
    "properties": {
        "id": {"TypeDef:Uint32": True},
        "label": {"TypeDef:Enum": True, "enum": ["cat", "dog"]},
        "stars": {"TypeDef:Float32": True},
        "title": {"TypeDef:String": True},
        "caption": {"TypeDef:String": True},
        "width": {"TypeDef:Int32": True},
        "height": {"TypeDef:Float64": True},
        "flag": {"TypeDef:Boolean": True},
        "at": {"TypeDef:Timestamp": True},
        "tags": {"TypeDef:Array": True, "items": {"TypeDef:String": True}},
        "box": {
            "TypeDef:Struct": ["x", "y"],
            "required": ["x", "y"],
            "properties": {"x": {"TypeDef:Int8": True}, "y": {"TypeDef:Int8": True}},
        },
    },
}


def row(n):
    full = {"id": n, "label": ["cat", "dog"][n % 2], "title": f"IMG_{n}", "width": n, "height": 10.5 - n, "tags": ["a"] * n}
    if n % 3:
        full |= {"stars": n / 2, "caption": ["cat", f"IMG_{n}"][n % 2], "flag": n % 2 == 0, "box": {"x": n, "y": 5}}
        full["at"] = f"2024-05-{n + 1:02}T12:00:00Z"
    return full


ROWS = [row(n) for n in range(20)]


@pytest.fixture(params=["map", "read"])
def r(request, tmp_path):
    path = tmp_path / "r.mt"
    holdall.build(path, ROWS, KIND)
    with holdall.open(path, io=request.param) as f:
        yield f["records"].records()


def test_a_member_by_its_path(r):
    assert r["id"].tolist() == list(range(20)) and r["id"].dtype == np.uint32
    assert list(r["title"][:2]) == ["IMG_0", "IMG_1"]
    assert r["stars"].mask.tolist() == [n % 3 == 0 for n in range(20)]
    assert [len(tags) for tags in r["tags"]] == list(range(20))
    assert r["box.x"][1] == 1 and r[::-1]["id"][0] == 19
    some = r.where("width>=15")
    assert some["id"].tolist() == [15, 16, 17, 18, 19] and len(some["tags"][0]) == 15
    for wrong in (r, some, r[["id"]]):
        with pytest.raises(holdall.MissingNameError):
            wrong["nope"]
    with pytest.raises(TypeError):
        r[1.5]


def test_some_members_as_a_table(r):
    c = r[["id", "box.x", "title"]]
    assert isinstance(c, holdall.Columns) and len(c) == 20
    assert c[1] == {"id": 1, "box.x": 1, "title": "IMG_1"} and c[-1]["id"] == 19 and c[0]["box.x"] is None
    assert c.columns == {"id": "uint32", "box.x": "int8 or absent", "title": "string"}
    assert [x["id"] for x in c] == list(range(20)) and c.head(2)[1] == c[1] and len(c[[1, 5]]) == 2
    assert c["id"].tolist() == c.column("id").tolist() == list(range(20))
    assert list(c[["title"]].columns) == ["title"] == list(r.select("title", "title").columns)
    assert c.where("stars>=4").records.positions.tolist() == [8, 10, 11, 13, 14, 16, 17, 19]
    assert c.sort("-id")[0]["id"] == 19 and "Columns of 20 records: id uint32" in repr(c)
    assert c[r["id"] < 3].head(100)[2]["title"] == "IMG_2"
    with pytest.raises(IndexError):
        c[20]
    with pytest.raises(holdall.MissingNameError):
        r[["id", "nope"]]
    again = pickle.loads(pickle.dumps(c))
    assert again[3] == c[3]


def test_members_for_other_libraries(r):
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    c = r[["id", "stars", "box.x"]]
    whole = c.to_pandas()
    assert list(whole) == ["id", "stars", "box.x"] and whole["stars"].isna().sum() == 7
    pd.testing.assert_series_equal(whole["stars"], r.to_pandas()["stars"])
    assert list(r.where("width>17")[["title"]].to_pandas().index) == [18, 19]
    assert pa.table(c).column_names == ["id", "stars", "box.x"] and pa.table(c).num_rows == 20
    polars = pytest.importorskip("polars")
    assert c.to_polars().shape == (20, 3) and polars.DataFrame(c[:2]).shape == (2, 3)


def test_the_first_records(r):
    assert [x["id"] for x in r.head()] == [0, 1, 2, 3, 4] and len(r.head(0)) == 0 and len(r.head(-3)) == 0
    assert [x["id"] for x in r.where("width>5").head(2)] == [6, 7]


def test_summaries(r):
    d = r.describe()
    assert d.records == 20 and "box.y" in d and "tags" in d and len(d) == 12
    stars = [n / 2 for n in range(20) if n % 3]
    s = d["stars"]
    assert (s.type, s.count, s.absent, s.min, s.max) == ("float32", 13, 7, min(stars), max(stars))
    assert s.mean == pytest.approx(np.mean(stars)) and s.std == pytest.approx(np.std(stars))
    assert (d["title"].min, d["title"].max, d["title"].mean) == ("IMG_0", "IMG_9", None)
    assert (d["label"].min, d["label"].max) == ("cat", "dog") and d["at"].min == "2024-05-02T12:00:00Z"
    assert d["flag"].mean == pytest.approx(6 / 13) and d["tags"].count == 20 and d["tags"].min is None
    assert str(d).splitlines()[0] == "20 records" and "\nstars    float32 " in str(d)
    few = r.where("width>17").describe("id", "title")
    assert few.records == 2 and few["id"].mean == 18.5 and list(few) == ["id", "title"]
    none = r.where("width>100").describe("id", "tags")
    assert none["id"] == holdall.ColumnSummary("id", "uint32", 0, 0, None, None, None, None) and none["tags"].count == 0


def test_aggregates(r):
    asked = ["count(stars)", "sum(width)", "min(title)", "max(at)", "mean(stars)", "std(width)", "sum(flag)"]
    found = r.groups("label", aggregates=asked)
    for label, count, *values in found:
        of = [x for x in ROWS if x["label"] == label]
        stars = [x["stars"] for x in of if "stars" in x]
        widths = [x["width"] for x in of]
        assert count == 10 and values[0] == len(stars) and values[1] == sum(widths) and type(values[1]) is int
        assert values[2] == min(x["title"] for x in of) and values[3] == max(x["at"] for x in of if "at" in x)
        assert values[4] == pytest.approx(np.mean(stars)) and values[5] == pytest.approx(np.std(widths))
        assert values[6] == sum(x.get("flag", False) for x in of)
    assert r.groups(aggregates="max(height)") == [((), 20, 10.5)]
    assert r.groups() == [((), 20)]
    by_two = {key: low for key, _, low in r.groups("label", "flag", aggregates=["min(id)"])}
    assert by_two == {("cat", None): 0, ("cat", True): 2, ("dog", None): 3, ("dog", False): 1}
    assert r.where("width<0").groups(aggregates=["sum(width)"]) == []
    assert r.where("stars is null").groups("label", aggregates=["mean(stars)", "count(stars)"])[0][2:] == (None, 0)
    # Groups of texts, and of members that are not gathered.
    by_title = {title: total for title, _, total in r.groups("title", aggregates=["sum(width)"])}
    assert by_title == {x["title"]: x["width"] for x in ROWS}
    by_tags = r.groups("tags", aggregates=["sum(width)"])
    assert len(by_tags) == 20 and all(len(tags) == total for tags, _, total in by_tags)
    picked = r[[3, 3, 5]].groups("label", aggregates=["sum(width)"])
    assert picked == [("dog", 3, 11)]
    for wrong, code in [
        ("median(width)", "records/aggregate"),
        ("width", "records/aggregate"),
        ("sum()", "records/aggregate"),
        ("sum(title)", "records/aggregate"),
        ("mean(at)", "records/aggregate"),
        ("max(tags)", "records/condition"),
        ("sum(nope)", "schema/unknown-path"),
    ]:
        with pytest.raises(holdall.HoldallError) as e:
            r.groups("label", aggregates=[wrong])
        assert e.value.code == code, wrong


def test_aggregates_of_odd_numbers(tmp_path):
    points = np.zeros(4, [("x", "<f8"), ("n", "<i8"), ("u", "<u8")])
    points["x"] = [np.nan, 1.0, -np.inf, 1e308]
    points["n"] = [2**63 - 1, 2**63 - 1, -5, 0]
    points["u"] = 2**64 - 1
    holdall.save(tmp_path / "a.zt", {"p": points})
    with holdall.open(tmp_path / "a.zt") as f:
        r = f["p"].records()
        [(_, _, low, high, total, n, u, mean)] = r.groups(
            aggregates=["min(x)", "max(x)", "sum(x)", "sum(n)", "sum(u)", "mean(n)"]
        )
        assert low == -np.inf and high == 1e308 and np.isnan(total)
        assert n == 2**64 - 7 and u == 4 * (2**64 - 1) and mean == (2**64 - 7) / 4
        assert r[1:2].groups(aggregates=["sum(x)"])[0][2] == 1.0
        assert r[2:3].groups(aggregates=["sum(x)", "mean(x)"])[0][2:] == (-np.inf, -np.inf)
        assert np.isnan(r[:1].groups(aggregates=["mean(x)"])[0][2]) and r[:1].groups(aggregates=["min(x)"])[0][2] is None


def test_conditions(r):
    def wanted(holds):
        return [n for n, x in enumerate(ROWS) if holds(x)]

    for text, holds in [
        ("width between 3 and 5", lambda x: 3 <= x["width"] <= 5),
        ("width not between 3 and 5", lambda x: not 3 <= x["width"] <= 5),
        ("stars between 1 and 2.5 and label=dog", lambda x: 1 <= x.get("stars", 0) <= 2.5 and x["label"] == "dog"),
        ("title between 'IMG_1' and 'IMG_2'", lambda x: "IMG_1" <= x["title"] <= "IMG_2"),
        ("at between 2024-05-03T00:00:00Z and 2024-05-06T00:00:00Z", lambda x: "2024-05-03" <= x.get("at", "") <= "2024-05-06"),
        ("title like IMG_1%", lambda x: x["title"].startswith("IMG_1")),
        ("title like 'IMG\\_1_'", lambda x: x["title"].startswith("IMG_1") and len(x["title"]) == 6),
        ("caption not like %a%", lambda x: "a" not in x.get("caption", "")),
        ("label like c_t", lambda x: x["label"] == "cat"),
        ("stars is null", lambda x: "stars" not in x),
        ("flag is not null", lambda x: "flag" in x),
        ("not (at is null) and flag", lambda x: "at" in x and x["flag"]),
        ("width < height", lambda x: x["width"] < x["height"]),
        ("width>=stars", lambda x: "stars" in x and x["width"] >= x["stars"]),
        ("width != stars", lambda x: x["width"] != x.get("stars")),
        ("caption = member(title)", lambda x: x.get("caption") == x["title"]),
        ("title = caption", lambda x: False),
        ("label = caption", lambda x: x["label"] == x.get("caption")),
        ("width in (id, 3)", lambda x: True),
        ("width between stars and 6", lambda x: "stars" in x and x["stars"] <= x["width"] <= 6),
    ]:
        assert r.where(text).positions.tolist() == wanted(holds), text
    for wrong in (
        "title like 'x\\'", "width like 3", "width between 1", "width < title", "width < member(label)", "label < caption",
        "flag < member(flag)", "tags = member(tags)", "at > member(width)", "width = member(nope)", "flag between true and true",
    ):  # fmt: skip
        with pytest.raises(holdall.HoldallError) as e:
            r.where(wrong)
        assert e.value.code in ("records/condition", "schema/unknown-path"), wrong


def test_times_and_names_have_no_mean(tmp_path):
    rows = np.array([(1, "2024-05-01T12:00"), (2, "NaT")], [("id", "i4"), ("at", "M8[m]")])
    np.save(tmp_path / "a.npy", rows)
    with holdall.open(tmp_path / "a.npy") as file:
        summary = file["data"].records().describe()
    assert (summary["id"].mean, summary["id"].max) == (1.5, 2)
    assert (summary["at"].mean, summary["at"].std) == (None, None)
    assert summary["at"].max == "2024-05-01T12:00"
