"""Values in notebooks: cards, tables and pictures. Whatever the file, they are well-formed, escaped, read little and
never raise."""

import re
import xml.etree.ElementTree as xml

import numpy as np
import pytest
from conftest import ACCEPT

import holdall
from holdall import _pictures, _tensor_html

HOSTILE = "<script>alert(1)</script>&\"'\u202egnp.exe\x1b[31m"


def page(value):
    """Returns the HTML of a value, which is parsed."""
    html = value._repr_html_()
    xml.fromstring(f"<div>{html}</div>")
    assert "<script" not in html and "javascript:" not in html
    assert html.isprintable(), [c for c in html if not c.isprintable()]
    return html


def test_a_tensor_shows_its_statistics_and_values(zt):
    with holdall.open(zt) as f:
        card = page(f["w"])
        a = f["w"].numpy()
        for text in ("<b>w</b>", "float32, 64 × 32", f"{a.min():.5g}", f"{a.max():.5g}", "32 × 32 values of 64 × 32"):
            assert text in card, text
        assert card.count("<svg") == 2 and "Sampled" not in card
        assert "0 × 4" in page(f["nothing"]) and "<svg" not in page(f["nothing"])
        assert "scalar" in page(f["scalar"]) and "<td>3</td>" in page(f["scalar"])
        assert "Magnitudes" in page(f["c"])
        assert page(f["ids"]).count("<svg") == 2 and "[0, :, :]" in page(f["ids"])
    assert "closed" in page(f["w"] if not f.closed else f) and "closed" in page(f)


def test_what_is_not_finite_is_counted(tmp_path):
    odd = np.array([[np.nan, np.inf], [-np.inf, 0.0], [1e308, -1e308]])
    holdall.save(tmp_path / "a.zt", {"odd": odd, "all": np.full((3, 3), np.nan), "big": np.array([2**63 - 1, -(2**63)])})
    with holdall.open(tmp_path / "a.zt") as f:
        card = page(f["odd"])
        for what in ("NaN", "inf", "-inf", "zeros", "1e+308"):
            assert f"<th>{what}</th>" in card or what in card
        assert "nan" not in re.sub("<[^>]*>", "", card).replace("NaN", "")
        assert "<td>9</td>" in page(f["all"])
        # Exact, which floats of 64 bits are not.
        assert str(2**63 - 1) in page(f["big"]) and str(-(2**63)) in page(f["big"])


def test_names_are_escaped(tmp_path):
    path = tmp_path / "a.zt"
    holdall.save(path, {HOSTILE: np.ones((4, 4))}, attributes={HOSTILE: HOSTILE})
    with holdall.open(path) as f:
        for value in (f, f[HOSTILE], f[HOSTILE].stats(), f.verify(), holdall.diff(f, f)):
            page(value)
        assert "&lt;script&gt;" in page(f[HOSTILE]) and r"\u202e" in page(f[HOSTILE]) and r"\x1b" in page(f[HOSTILE])
    holdall.save(tmp_path / "b.zt", {HOSTILE + "2": np.ones(4)}, attributes={HOSTILE: "other"})
    found = holdall.diff(path, tmp_path / "b.zt")
    assert page(found).count("&lt;script&gt;") >= 3


@pytest.mark.parametrize("io", ["map", "read"])
def test_a_part_of_a_large_tensor_is_read_and_the_card_says_so(tmp_path, io, monkeypatch):
    path = tmp_path / "a.safetensors"
    large = np.random.default_rng(0).standard_normal((3000, 1000), dtype=np.float32)
    holdall.save(path, {"large": large})
    read = []
    whole = holdall.Tensor.numpy
    monkeypatch.setattr(holdall.Tensor, "numpy", lambda self, copy=None: read.append(copy) or whole(self, copy))
    with holdall.open(path, io=io) as f:
        card = page(f["large"])
        assert "Sampled: " in card and "3000000 values" in card and card.count("<svg") == 2
        if io == "read":
            assert read == [] and f"the first {_tensor_html.START // 4} of" in card
        else:
            assert f"{_tensor_html.RUNS * _tensor_html.RUN} of 3000000 values" in card
        assert len(card) < 60_000


def test_large_tensors_that_would_have_to_be_decoded_are_not(tmp_path):
    large = np.zeros((3000, 1000), np.float32)
    holdall.save(tmp_path / "a.zt", {"large": large}, encoding="zstd")
    with holdall.open(tmp_path / "a.zt") as f:
        assert "Compressed: stats() reads its 3000000 values" in page(f["large"])
    holdall.convert(tmp_path / "a.zt", tmp_path / "b.zt", sparse="csr")
    with holdall.open(tmp_path / "b.zt") as f:
        assert "A tensor of layout sparse_csr" in page(f["large"])


def test_errors_become_text(tmp_path, monkeypatch):
    holdall.save(tmp_path / "a.zt", {"w": np.ones(4)})
    with holdall.open(tmp_path / "a.zt") as f:
        t = f["w"]

        def broken(self, copy=None):
            raise MemoryError("<no memory>")

        monkeypatch.setattr(holdall.Tensor, "numpy", broken)
        assert "MemoryError: &lt;no memory&gt;" in page(t)
    assert "closed" in page(t)


@pytest.mark.parametrize("path", ACCEPT, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_tensor_of_the_corpus_has_a_card(path):
    try:
        f = holdall.open(path)
    except holdall.HoldallError:
        pytest.skip("opened by its folder or with other options")
    with f:
        page(f)
        for tensor in f.values():
            card = page(tensor)
            assert "cannot be shown" not in card, card
            assert len(card) < 200_000


def test_reports(zt, tmp_path):
    stats = holdall.stats(zt, ["w"])["w"]
    assert "<svg" in page(stats) and "std" in page(stats)
    assert "<svg" not in page(holdall.stats(zt, ["nothing"])["nothing"])
    assert "sound" in page(holdall.verify(zt))
    data = bytearray(zt.read_bytes())
    data[70] ^= 1
    (tmp_path / "bad.zt").write_bytes(data)
    bad = page(holdall.verify(tmp_path / "bad.zt"))
    assert "bad" in bad and "<table>" in bad
    (tmp_path / "none.zt").write_bytes(b"")
    assert "bad" in page(holdall.verify(tmp_path / "none.zt"))
    holdall.save(tmp_path / "other.zt", {"w": np.zeros((64, 32), np.float32), "more": np.ones(1)})
    found = page(holdall.diff(zt, tmp_path / "other.zt"))
    assert "different" in found and "only in b" in found and "values differ" in found


def test_blobs_and_selections(tmp_path):
    runs = ["first <b>", "x" * 1000, ""]
    rows = [{"id": n, "text": HOSTILE * (n % 2)} for n in range(100)]
    kind = holdall.schema.infer(rows)
    holdall.save(tmp_path / "a.mt", {"texts": holdall.Runs(runs, "utf-8"), "bytes": holdall.Runs([b"\0" * 9], "bytes")})
    holdall.build(tmp_path / "r.mt", rows, kind)
    with holdall.open(tmp_path / "a.mt") as f:
        card = page(f["texts"].blob())
        assert "first &lt;b&gt;" in card and "<td style='text-align:left'>1000</td>" in card
        assert card in page(f["texts"])
        page(f["bytes"].blob())
    with holdall.open(tmp_path / "r.mt") as f:
        r = f["records"].records()
        some = r.where("id>=10")
        assert "<th>10</th>" in page(some) and "and 80 more" in page(some)
        page(r[["text"]]), page(some[["id"]]), page(r.describe()), page(f["records"])
        assert "<svg" not in page(r)
    assert "closed" in page(r) and "closed" in page(some) and "closed" in page(r[["id"]] if not f.closed else r)


def test_large_records_are_not_read(tmp_path):
    rows = [{"id": n, "data": "x" * (9 << 20)} for n in range(2)]
    holdall.build(tmp_path / "r.mt", rows, holdall.schema.infer(rows))
    with holdall.open(tmp_path / "r.mt") as f:
        r = f["records"].records()
        assert "The records are large" in page(r)
        assert "<td style='text-align:left'>1</td>" in page(r[["id"]])


def test_pictures_of_numbers():
    assert _pictures.histogram([]) == "" and _pictures.histogram([0, 0]) == ""
    bars = _pictures.histogram([1, 0, 1000])
    # Empty bins have no bar, and a single value in a large tensor still has one.
    assert bars.count("z") == 2 and "v1.0h" in bars
    assert _pictures.heat_map(np.full((2, 2), np.nan)) == ""
    for values in ([[0.0, 1.0], [2.0, 3.0]], [[-1.0, 0.0], [0.5, np.nan]], [[-3.0, -1.0]], [[5.0, 5.0]], [[-1.7e308, 1.7e308]]):
        drawn = _pictures.heat_map(np.array(values))
        xml.fromstring(drawn)
        area = sum(int(n) for n in re.findall(r"h(\d+)v1", drawn))
        assert area == np.array(values).size, values
    assert _pictures.places(3, 5) == [0, 1, 2] and _pictures.places(10, 5) == [0, 2, 4, 6, 8]
