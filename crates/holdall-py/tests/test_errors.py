"""Classes of errors and what they carry."""

import pickle

import numpy as np
import pytest

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


def test_limits(tmp_path):
    holdall.save(tmp_path / "a.zt", {"a": np.zeros(1 << 20), "b": np.zeros(1)}, encoding="zstd")
    with pytest.raises(holdall.Limit):
        holdall.open(tmp_path / "a.zt", limits={"tensors": 1})
    with holdall.open(tmp_path / "a.zt", limits={"decoded_len": 10, "expansion": 1}) as f:
        with pytest.raises(holdall.Limit):
            f["a"].numpy()
    with pytest.raises(holdall.Misuse):
        holdall.open(tmp_path / "a.zt", limits={"nope": 1})


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
