"""Classes of errors and what they carry."""

import json
import pickle
import re

import numpy as np
import pytest
from conftest import ROOT

import holdall


def test_classes():
    assert issubclass(holdall.NotFound, KeyError) and issubclass(holdall.Misuse, ValueError)
    assert issubclass(holdall.Io, OSError) and issubclass(holdall.MissingFile, FileNotFoundError)
    for name in ("Malformed", "Integrity", "Unsupported", "Limit", "NotFound", "Misuse", "Io"):
        assert issubclass(getattr(holdall, name), holdall.HoldallError)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError) as e:
        holdall.open(tmp_path / "none.zt")
    assert type(e.value) is holdall.MissingFile
    assert e.value.kind == "io" and e.value.code == "io/failed" and e.value.errno == 2
    assert "none.zt" in e.value.source


def test_a_folder_and_an_empty_file(tmp_path):
    with pytest.raises(holdall.NotFound) as none:
        holdall.open(tmp_path)
    assert none.value.code == "shards/no-model"
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(holdall.Malformed) as e:
        holdall.open(tmp_path / "empty")
    assert e.value.code == "format/empty"


def test_a_missing_tensor_reads_well(zt):
    with holdall.open(zt) as f, pytest.raises(KeyError) as e:
        f["idz"]
    text = str(e.value)
    assert "there is no tensor" in text and "did you mean `ids`" in text and not text.startswith("'")
    assert e.value.tensor == "idz" and e.value.code == "file/no-tensor" and e.value.kind == "not_found"


def test_changed_bytes(zt):
    data = bytearray(zt.read_bytes())
    with holdall.open(zt) as f:
        start, end = f["w"].location["data"]
    data[start + 5] ^= 1
    zt.write_bytes(data)
    with pytest.raises(holdall.Integrity) as e:
        holdall.load(zt)
    assert e.value.tensor == "w" and e.value.component == "data" and e.value.range == (start, end)
    assert e.value.code == "file/digest" and e.value.hint
    with holdall.open(zt, check="off") as f:
        f.load()
    report = holdall.verify(zt)
    assert not report and report.verdict == "bad" and report.finding_count == 1
    assert isinstance(report.findings[0], holdall.Integrity)
    with holdall.open(zt) as f:
        assert not f["w"].verify() and f["ids"].verify()


def suggested(hint):
    """The limits that a hint suggests, as a caller would copy them."""
    (text,) = re.findall(r"limits=(\{.*?\})", hint)
    return eval(text, {"N": 7})


def refusal(path, limits, target):
    """What refuses the file under these limits: opening it, or reading its tensors and making them dense."""
    with pytest.raises(holdall.Limit) as e, holdall.open(path, limits=limits) as f:
        holdall.convert(f, target, dense=True, drop_attributes=True)
    return e.value


LIMITS = json.loads((ROOT / "corpus/limits.json").read_text())


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: f"{case['limit']}-{case['code']}")
def test_limits_are_kept(case, tmp_path):
    limits = {case["limit"]: case["value"], **case.get("also", {})}
    e = refusal(ROOT / "corpus/accept" / case["file"], limits, tmp_path / "a.zt")
    assert e.code == case["code"]
    named = [remedy["limit"] for remedy in e.remedies if remedy["do"] == "raise_limit"]
    assert named == [case.get("remedy", case["limit"])]
    assert list(suggested(e.hint)) == named


def test_every_limit_is_tested_and_typed():
    from holdall import _holdall

    names = {name for name, *_ in _holdall.limit_remedies()}
    # Files are fetched in test_pack.py.
    assert {case["limit"] for case in LIMITS} | {"fetched_len"} == names
    assert set(holdall.Limits.__annotations__) == names | {"skip_unknown"}


def test_remedies_that_name_a_limit_are_accepted(zt):
    from holdall import _holdall

    for name, *hints in _holdall.limit_remedies():
        for hint, value in zip(hints, [7, 20]):
            limits = suggested(hint)
            assert limits == {name: value}
            try:
                holdall.open(zt, limits=limits).close()
            except holdall.Limit:
                pass    # The limit exists, and is too low for this file.


def test_limits_that_do_not_exist_are_refused(zt):
    for name in ["nope", "decodedLen", "decoded-len", "salvage"]:
        with pytest.raises(holdall.Misuse) as e:
            holdall.open(zt, limits={name: 1})
        assert e.value.code == "limits/unknown"
        assert all(known in str(e.value) for known in holdall.Limits.__annotations__ if known != "skip_unknown")
    with pytest.raises(holdall.Misuse, match="did you mean `decoded_len`"):
        holdall.open(zt, limits={"decodedLen": 1})
    with pytest.raises(holdall.Misuse, match="`depth` is at most 512, not 513"):
        holdall.open(zt, limits={"depth": 513})
    with pytest.raises(TypeError):
        holdall.open(zt, limits={"tensors": "many"})
    with pytest.raises(OverflowError):
        holdall.open(zt, limits={"tensors": -1})


def test_words_that_mean_nothing(zt, tmp_path):
    one = {"a": np.ones(1)}
    calls = [
        lambda: holdall.open(zt, io="fast"), lambda: holdall.open(zt, check="some"),
        lambda: holdall.save(tmp_path / "b.zt", one, encoding="lzma"),
        lambda: holdall.save(tmp_path / "b.zt", one, digest="md5"),
        lambda: holdall.save(tmp_path / "b.zt", one, format="npy"),
        lambda: holdall.save(tmp_path / "b.zt", one, tied="no"),
        lambda: holdall.save(tmp_path / "b.zt", one, align=3),
        lambda: holdall.save(tmp_path / "b.unknown", one),
        lambda: holdall.convert(zt, tmp_path / "b.zt", sharing="x"),
        lambda: holdall.convert(zt, tmp_path / "b.zt", rename=["nothing"]),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(holdall.Misuse):
            call()
    assert not list(tmp_path.glob("b.*"))


def test_every_remedy_is_spelled_in_python():
    from holdall import _holdall

    elsewhere = {"copy_elements", "read_pairs", "give_schema"}
    for name, hint, in_rust in _holdall.remedies():
        assert (hint is None) == (name in elsewhere), name
        if hint is not None:
            # These are the same for everybody.
            assert (hint == in_rust) == (name in {"did_you_mean", "read_array"}), name
            assert "--" not in hint and "with_" not in hint and "::" not in hint, hint


def test_remedies_are_values(zt):
    with holdall.open(zt) as f, pytest.raises(holdall.NotFound) as e:
        f["idz"]
    assert e.value.remedies == [{"do": "did_you_mean", "name": "ids"}]
    again = pickle.loads(pickle.dumps(e.value))
    assert again.remedies == e.value.remedies and again.hint == e.value.hint


def test_hints_speak_python(tmp_path):
    scipy = pytest.importorskip("scipy.sparse")
    holdall.save(tmp_path / "a.zt", {"s": scipy.eye_array(3, format="csr"), "c": np.ones(2, np.complex128)})
    with pytest.raises(holdall.Unsupported) as e:
        holdall.convert(tmp_path / "a.zt", tmp_path / "a.safetensors")
    assert "dense=True" in e.value.hint and "--" not in e.value.hint
    with pytest.raises(holdall.Misuse) as e:
        holdall.save(tmp_path / "a.none", {"c": np.ones(2)})
    assert 'format="ztensor"' in e.value.hint and "--" not in e.value.hint


def test_files_of_other_kinds_are_named(tmp_path):
    for name, content, said, way in [
        ("a.safetensors", b"<html><title>403</title>", "an HTML page titled “403”", "the download was refused"),
        ("b.gguf", b"version https://git-lfs.github.com/spec/v1\nsize 5\n", "a git-lfs pointer for a file of 5 bytes", "git lfs"),
        ("c.csv", b"id,name\n1,a\n", "a table of text", "holdall.build makes a dataset"),
        ("d.pkl", b"\x80\x04\x95\x10\0\0\0\0\0\0\0}.", "a pickle", "to load a pickle"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(holdall.Unsupported) as e:
            holdall.open(tmp_path / name)
        assert e.value.code == "format/unknown" and said in str(e.value)
        assert way in str(e.value.hint), e.value.hint
