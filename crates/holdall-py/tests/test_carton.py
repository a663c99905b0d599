"""Packages of models: opened, verified, unpacked. How they are made is in test_pack.py, run in test_model.py."""

import hashlib
import json
import pickle
import threading

import numpy as np
import pytest
from conftest import ACCEPT, REJECT, ROOT

import holdall
from holdall import carton

CARTONS = [p for p in ACCEPT if p.suffix == ".carton"]
BROKEN = [p for p in REJECT if p.suffix == ".carton"]
FULL = ROOT / "corpus/accept/carton/made-full.carton"
XOR = ROOT / "examples/xor"


@pytest.fixture
def xor(tmp_path):
    carton.pack(XOR, tmp_path / "xor.carton")
    return tmp_path / "xor.carton"


@pytest.mark.parametrize("path", CARTONS, ids=lambda p: p.name)
def test_accepted(path):
    expected = json.loads(path.with_name(path.name + ".json").read_text())["attributes"]
    for source in (path, path.read_bytes()):
        with carton.open(source, offline=True) as package:
            assert package.version == "1"
            assert package.hash == expected["model_hash"]
            assert package.name == expected.get("model_name")
            assert package.runner.name == expected["runner_name"]
            assert package.runner.compat_version == expected["runner_compat_version"]
            assert [spec.name for spec in package.inputs] == [i["name"] for i in expected.get("inputs", [])]
            for spec, declared in zip(package.inputs, expected.get("inputs", [])):
                shape = declared["shape"]
                assert (spec.dtype, spec.shape) == (declared["dtype"], shape if shape == str(shape) else tuple(shape))
            for name, file in package.files.items():
                if file.location == "links":
                    assert file.urls
                    continue
                if file.target and package.files[file.target].location == "links":
                    with pytest.raises(holdall.NotFoundError) as info:
                        package.read(name)
                    assert info.value.code == "links/offline"
                    continue
                data = package.read(name)
                assert file.nbytes == len(data)
                assert file.sha256 in (None, hashlib.sha256(data).hexdigest())
            report = package.verify()
            assert report.verdict in ("sound", "incomplete") and not report.findings
            assert (report.verdict == "incomplete") == (report.linked > 0)
            assert repr(package) and package._repr_html_()
            if not report.linked:
                assert list(package.values) == list(package.tensors)
                for name, value in package.values.items():
                    t = package.tensors[name]
                    assert t.layout != "dense" or value.tobytes() == t.numpy().tobytes()


@pytest.mark.parametrize("path", BROKEN, ids=lambda p: p.name)
def test_rejected(path):
    code = "/".join(path.name.split(".")[:2])
    with pytest.raises(holdall.HoldallError) as info:
        with carton.open(path, check="all", offline=True) as package:
            package.verify().raise_if_bad()
            list(package.values.values())
            list(package.tensors)
            package.tensors.verify().raise_if_bad()
    # A tensor's digest is that of its file in the package, where it is said in another way.
    same = {"file/digest": "carton/hash", "format/unknown": "carton/missing-file"}
    assert info.value.code in (code, same.get(code)), info.value
    assert info.value.source and path.name in info.value.source


def test_everything_that_is_said():
    with carton.open(FULL) as p:
        assert (p.name, p.license) == ("everything", "MIT OR Apache-2.0")
        assert p.short_description == "A package with all there is"
        assert p.description.startswith("Two lines,\n") and p.homepage == "https://example.com"
        assert p.platforms == ("x86_64-unknown-linux-gnu", "aarch64-apple-darwin")
        assert p.inputs[0] == carton.Spec("x", "float32", ("batch", 3), *p.inputs[0][3:])
        assert str(p.inputs[1]).startswith("words: string any shape")
        assert p.outputs[1].shape == "whatever" and p.outputs[0].shape == ("batch", "*")
        assert p.runner.framework_version == ">=1.12, <2"
        assert p.self_tests and p.examples
        for test in p.self_tests:
            assert set(test.inputs.values()) <= set(p.values)
        words, rows = p.values["words"], p.values["rows"]
        assert words.dtype == object and all(isinstance(w, str) for w in words.ravel())
        assert isinstance(rows, list) and len({r.dtype for r in rows}) == 1
        assert not p.values["x"].flags.writeable and not words.flags.writeable
        for text in ("everything", "batch", "misc/picture.png"):
            assert text in p._repr_html_()
        assert p.files["carton.toml"].location == "zip"


def test_a_card_escapes_what_the_package_says(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/w").write_bytes(b"w")
    carton.pack(tmp_path / "m", name="<script>", runner="noop", framework_version="1", short_description="a & b")
    with carton.open(tmp_path / "m.carton") as p:
        assert "<script>" not in p._repr_html_() and "a &amp; b" in p._repr_html_()


def test_names_that_are_not_there(xor):
    with carton.open(xor) as p:
        with pytest.raises(holdall.NotFoundError, match="did you mean") as info:
            p.read("model/model.onn")
        assert info.value.code == "package/no-file" and isinstance(info.value, KeyError)
        with pytest.raises(KeyError, match="did you mean"):
            p.files["model/model.onn"]
        assert p.files.get("nope") is None and "nope" not in p.files
        with pytest.raises(holdall.NotFoundError) as info:
            p.values["nope"]
        assert info.value.code == "package/no-tensor"
        for odd in ("\ud800", 3, None):
            with pytest.raises((KeyError, TypeError)):
                p.files[odd]
            with pytest.raises((KeyError, TypeError)):
                p.values[odd]
        with pytest.raises(TypeError):
            p.files["x"] = 1


def test_what_is_no_package(tmp_path, zt):
    with pytest.raises(holdall.UsageError) as info:
        carton.open(zt)
    assert info.value.code == "package/no-package"
    with pytest.raises(FileNotFoundError):
        carton.open(tmp_path / "nope.carton")
    (tmp_path / "empty.carton").write_bytes(b"")
    for source in (tmp_path / "empty.carton", b"", b"PK\x05\x06"):
        with pytest.raises(holdall.MalformedError):
            carton.open(source)
    with pytest.raises(TypeError, match="binary mode"):
        carton.open(open(__file__))
    with pytest.raises(TypeError):
        carton.open(3)
    with pytest.raises(TypeError, match="list of words"):
        carton.open("a.carton", allow="http")
    with pytest.raises(holdall.UsageError, match="private-hosts"):
        carton.open("a.carton", allow=["htp"])


def test_closed(xor):
    p = carton.open(xor)
    values, tensors, x = p.values, p.tensors, p.values["x"]
    p.close()
    p.close()
    assert p.closed and "closed" in repr(p) and "closed" in p._repr_html_() and tensors.closed
    for use in (
        lambda: p.read("carton.toml"), lambda: p.open("carton.toml"), lambda: p.verify(), lambda: p.warnings,
        lambda: p.tensors, lambda: list(values), lambda: p.unpack("nowhere"), lambda: p.load(), lambda: p.__enter__(),
    ):  # fmt: skip
        with pytest.raises(holdall.UsageError) as info:
            use()
        assert info.value.code == "python/closed"
    assert x.sum() == 4 and p.name == "xor"
    with pytest.raises(TypeError, match="pickle its path"):
        pickle.dumps(p)


def test_folder(tmp_path, xor):
    with carton.open(xor) as p, carton.open(XOR) as folder:
        assert folder.hash is None and folder.name == p.name and set(folder.files) < set(p.files)
        assert folder.files["carton.toml"].location == "disk"
        assert np.array_equal(folder.values["x"], p.values["x"])
        with pytest.raises(holdall.UnsupportedError) as info:
            folder.tensors
        assert "values" in info.value.hint
        assert folder.verify().unhashed == len(folder.files)
        p.unpack(tmp_path / "out")
        p.unpack(tmp_path / "model", model=True)
        assert sorted(f.name for f in (tmp_path / "model").iterdir()) == ["model.onnx"]
        with carton.open(tmp_path / "out") as out:
            assert out.hash == p.hash and out.verify().verdict == "sound"
        with pytest.raises(holdall.UsageError) as info:
            p.unpack(tmp_path / "out")
        assert info.value.code == "package/target" and "overwrite=True" in info.value.hint
        seen = []
        p.unpack(tmp_path / "out", overwrite=True, progress=lambda done, total: seen.append((done, total)))
        assert seen and seen[-1][0] == seen[-1][1] > 0


def test_verify_finds_changed_bytes(xor, tmp_path):
    data = bytearray(xor.read_bytes())
    at = data.find(carton.open(xor).read("model/model.onnx"))
    data[at + 3] ^= 1
    with carton.open(data, name="changed") as p:
        report = p.verify()
        assert not report and report.verdict == "bad" and report.finding_count == 1
        with pytest.raises(holdall.IntegrityError, match="changed!/model/model.onnx") as info:
            report.raise_if_bad()
        assert info.value.code == "carton/hash"
        with pytest.raises(holdall.IntegrityError):
            p.read("model/model.onnx")
        with pytest.raises(holdall.IntegrityError):
            p.unpack(tmp_path / "out")
        with pytest.raises(holdall.IntegrityError):
            p.load()
        assert not (tmp_path / "out").exists()
    with carton.open(ROOT / "corpus/accept/carton/made-misfits.carton") as p:
        assert p.warnings and p.verify() and not p.verify(strict=True)


def test_strictly_what_is_demanded_is_found(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p/carton.toml").write_text(
        "spec_version = 1\n"
        'required_platforms = ["linux"]\n'
        "model_description = '![a](@misc/a.png)'\n"
        "[[example]]\n"
        "[runner]\n"
        'runner_name = "noop"\n'
        'required_framework_version = "1"\n'
        "runner_compat_version = 1\n"
    )
    wanted = [
        "carton/no-model",
        "carton/nothing-declared",
        "carton/example",
        "carton/platform",
        "carton/description-link",
    ]
    with carton.open(tmp_path / "p") as p:
        assert not p.warnings
        usual, strict = p.verify(), p.verify(strict=True)
    assert usual and [w.code for w in usual.warnings] == wanted and not usual.findings
    assert not strict and [e.code for e in strict.findings] == wanted
    assert "`@misc/a.png`, which is not in the package" in str(strict.findings[-1])
    with pytest.raises(holdall.MalformedError):
        strict.raise_if_bad()


def test_tensor_files_inside(tmp_path, arrays, zt):
    report = carton.pack(zt, tmp_path / "w.carton", runner="noop", framework_version="1")
    inside = f"{tmp_path}/w.carton!/model/a.zt"
    with carton.open(report.path) as p, holdall.open(inside) as f, p.open("model/a.zt") as g:
        assert f.format == g.format == "ztensor" and list(f) == list(g) and set(f) == set(arrays)
        assert g.name == inside and g.io == "map"
        for name, array in arrays.items():
            assert np.array_equal(f[name].numpy(), array) and np.array_equal(g[name][...], array)
        with pytest.raises(holdall.UnsupportedError):
            p.open("carton.toml")
    assert np.array_equal(holdall.load(inside)["w"], arrays["w"])
    with pytest.raises(holdall.NotFoundError):
        holdall.open(f"{tmp_path}/w.carton!/model/b.zt")
    data = bytearray((tmp_path / "w.carton").read_bytes())
    data[data.find(zt.read_bytes()) + 100] ^= 1
    with carton.open(data) as p:
        p.open("model/a.zt")
    with carton.open(data, check="all") as p, pytest.raises(holdall.IntegrityError):
        p.open("model/a.zt")


def test_threads_share_a_package(xor):
    wrong = []

    def read():
        for _ in range(20):
            for name, file in p.files.items():
                if file.sha256 and hashlib.sha256(p.read(name)).hexdigest() != file.sha256:
                    wrong.append(name)
            wrong.extend(n for n in p.values if p.values[n].size == 0)

    with carton.open(xor) as p:
        threads = [threading.Thread(target=read) for _ in range(6)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    assert not wrong


def test_a_package_is_shown_as_a_page():
    with carton.open(ROOT / "examples/xor") as package:
        assert package.html().startswith("<!doctype html>") and "default-src 'none'" in package.html()
        assert package.markdown().startswith("# ") and "## Inputs" in package.markdown()
