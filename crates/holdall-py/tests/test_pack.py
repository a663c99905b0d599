"""Packages of models: made, taken apart into links, and whole again."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from conftest import ROOT

import holdall
from holdall import carton

XOR = ROOT / "examples/xor"


@pytest.fixture
def xor(tmp_path):
    carton.pack(XOR, tmp_path / "xor.carton")
    return tmp_path / "xor.carton"


def test_pack_gives_the_same_bytes(tmp_path):
    x = np.array([[0, 0], [0, 1]], np.float32)
    y = np.array([0, 1], np.int64)
    for at in (1, 2):
        (tmp_path / str(at)).mkdir()
        model = tmp_path / str(at) / "m.onnx"
        model.write_bytes((XOR / "model/model.onnx").read_bytes())
        report = carton.pack(
            model,
            name="xor",
            short_description="s",
            description="# d",
            license="MIT",
            repository="https://example.com/r",
            homepage="https://example.com",
            options={"num_threads": 1},
            platforms=["x86_64-unknown-linux-gnu"],
            self_tests=[
                {"inputs": {"x": x}, "expected": {"label": y}, "name": "two", "rtol": 1e-3},
                carton.SelfTest({"x": "more"}),
            ],
            tensors={"more": x[:1]},
            misc=[XOR / "carton.toml"],
        )
        assert report.path == str(tmp_path / str(at) / "m.carton") and not report.warnings
        assert report.nbytes == (tmp_path / str(at) / "m.carton").stat().st_size
    one, two = ((tmp_path / f"{at}/m.carton").read_bytes() for at in (1, 2))
    assert one == two
    with carton.open(one) as p:
        assert p.hash == report.hash and p.verify().verdict == "sound"
        assert (p.name, p.short_description, p.description, p.license) == ("xor", "s", "# d", "MIT")
        assert (p.repository, p.homepage) == ("https://example.com/r", "https://example.com")
        assert p.runner.name == "onnx" and p.runner.options == {"num_threads": 1}
        assert [i.name for i in p.inputs] == ["x"] and p.inputs[0].dtype == "float32"
        test, other = p.self_tests
        assert (test.name, test.rtol, test.atol) == ("two", 1e-3, 1e-8) and other.expected is None
        assert np.array_equal(p.values[test.inputs["x"]], x) and np.array_equal(p.values[test.expected["label"]], y)
        assert "misc/carton.toml" in p.files and len(p.files) == report.files + 1


def test_examples_are_shown(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/w").write_bytes(b"w")
    png = tmp_path / "rose.png"
    png.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    x = np.array([[1, 2]], np.float32)
    how = dict(runner="noop", framework_version="1", description="# Flowers\n\n![a rose](@misc/rose.png)")
    how |= dict(inputs=[("image", "uint8", "*"), ("x", "float32", ("n", 2))], outputs=[("label", "string", "*")])
    given = [
        {"name": "rose", "description": "red", "inputs": {"image": png, "x": x}, "outputs": {"label": np.array("a rose")}},
        carton.Example({"x": "more", "image": "@misc/rose.png"}),
    ]
    carton.pack(tmp_path / "m", **how, examples=given, tensors={"more": x[:, ::-1]})
    with carton.open(tmp_path / "m.carton") as p:
        rose, other = p.examples
        assert (rose.name, rose.description, rose.inputs["image"]) == ("rose", "red", "@misc/rose.png")
        assert p.values[rose.inputs["x"].removeprefix("@tensor_data/")].tolist() == [[1, 2]]
        assert p.values[rose.outputs["label"].removeprefix("@tensor_data/")] == "a rose"
        assert other.inputs == {"x": "@tensor_data/more", "image": "@misc/rose.png"} and other.outputs == {}
        assert p.read("misc/rose.png") == png.read_bytes() and not p.verify().warnings
        page, card = p.html(), p._repr_html_()
        assert page.count("data:image/png;base64") == 3 and "<h1>Flowers</h1>" in page and "a rose" in page
        assert "<iframe sandbox" in card and "data:image/png;base64" in card and "&lt;h1&gt;Flowers" in card
        # What it says goes into another package as it is.
        again = dict(tensors=dict(p.values), misc=[png], examples=p.examples)
        carton.pack(tmp_path / "m", tmp_path / "again.carton", **how, **again)
        with carton.open(tmp_path / "again.carton") as q:
            assert q.examples == p.examples and q.html().count("data:image/png") == 3
    # The same file by a path and by its text is one file.
    carton.pack(tmp_path / "m", tmp_path / "text.carton", **how, examples=given[:1], misc=[str(png)])
    with carton.open(tmp_path / "text.carton") as p:
        assert p.read("misc/rose.png") == png.read_bytes() and p.examples[0].inputs["image"] == "@misc/rose.png"
    for wrong, error in [
        ({"inputs": {"x": x}}, TypeError),
        ([{"inputs": {"x": x}, "text": "?"}], TypeError),
        ([{"inputs": {"x": "none"}}], holdall.MalformedError),
        ([{"inputs": {"image": tmp_path / "none.png"}}], holdall.FileIoError),
        ([{"inputs": {"a": png, "b": tmp_path / "m/rose.png"}}], holdall.UsageError),
    ]:
        with pytest.raises(error):
            carton.pack(tmp_path / "m", tmp_path / "wrong.carton", **how, examples=wrong)
    assert not (tmp_path / "wrong.carton").exists()


def test_pack_texts_and_nested_tensors(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/w").write_bytes(b"w")
    tensors = {
        "u": np.array([["a", "ü\0b"], ["", "\U0001f600"]]),
        "o": np.array(["x", "yy"], object),
        "one": np.array("only"),
        "none": np.empty(0, object),
        "rows": [np.arange(2.0), np.arange(3.0)],
        "big": np.arange(3, dtype=">i4"),
        "turned": np.arange(6.0, dtype=np.float32).reshape(2, 3).T,
        "scalar": np.float64(2.5),
    }
    if hasattr(np.dtypes, "StringDType"):
        tensors["t"] = np.array(["a", "bb"], np.dtypes.StringDType())
    carton.pack(tmp_path / "m", runner="noop", framework_version="1", tensors=tensors)
    with carton.open(tmp_path / "m.carton") as p:
        for name, array in tensors.items():
            found = p.values[name]
            if isinstance(array, list):
                assert [a.tolist() for a in found] == [a.tolist() for a in array]
                continue
            assert found.shape == array.shape and found.tolist() == array.tolist(), name
        assert p.values["big"].dtype == np.dtype("<i4")


@pytest.mark.parametrize("compress", ["zstd", "deflate"])
def test_pack_compressed(tmp_path, compress):
    (tmp_path / "m/model").mkdir(parents=True)
    (tmp_path / "m/model/w.bin").write_bytes(bytes(100_000))
    report = carton.pack(tmp_path / "m", runner="noop", framework_version="1", compress=compress)
    assert report.nbytes < 10_000
    with carton.open(tmp_path / "m.carton") as p:
        assert p.read("model/w.bin") == bytes(100_000) and p.verify().verdict == "sound"


def test_pack_of_a_folder(tmp_path, xor):
    report = carton.pack(XOR, tmp_path / "again.carton")
    assert (tmp_path / "again.carton").read_bytes() == xor.read_bytes()
    renamed = carton.pack(XOR, tmp_path / "again.carton", name="other", overwrite=True)
    assert renamed.hash != report.hash
    with carton.open(tmp_path / "again.carton") as p:
        assert p.name == "other" and p.license == "MIT OR Apache-2.0" and len(p.self_tests) == 1
    (tmp_path / "card.toml").write_text(
        'spec_version = 1\nmodel_name = "by toml"\n[runner]\nrunner_name = "noop"\n'
        'required_framework_version = "1"\nrunner_compat_version = 1\n'
    )
    carton.pack(XOR / "model", tmp_path / "t.carton", from_toml=tmp_path / "card.toml", license="MIT")
    with carton.open(tmp_path / "t.carton") as p:
        assert (p.name, p.license) == ("by toml", "MIT") and "model/model.onnx" in p.files
    # What the card does not say, the graph does.
    (tmp_path / "card.toml").write_text('license = "MIT"\n[lineage]\nbase_model = ["xor"]\n[card]\nusage = "at will"\n')
    carton.pack(XOR / "model/model.onnx", tmp_path / "part.carton", from_toml=tmp_path / "card.toml")
    carton.pack(XOR / "model/model.onnx", tmp_path / "bare.carton")
    with carton.open(tmp_path / "part.carton") as p, carton.open(tmp_path / "bare.carton") as bare:
        assert p.license == "MIT" and p.inputs == bare.inputs and len(p.inputs) > 0
        assert p.card == {"usage": "at will"} and list(p.base_models) == ["xor"] and p.sbom is None


def test_pack_refuses(tmp_path, xor):
    onnx = XOR / "model/model.onnx"
    out = tmp_path / "o.carton"
    x = np.zeros((1, 2), np.float32)

    def refused(error, code, *args, **options):
        with pytest.raises(error) as info:
            carton.pack(*args, **options)
        assert code is None or info.value.code == code, info.value
        assert not out.exists()

    refused(holdall.UsageError, "package/part", xor, out)
    refused(FileNotFoundError, None, tmp_path / "nope.onnx", out)
    (tmp_path / "w.bin").write_bytes(b"1")
    refused(holdall.UsageError, "package/runner", tmp_path / "w.bin", out)
    (tmp_path / "empty").mkdir()
    refused(holdall.UsageError, "package/part", tmp_path / "empty", out, runner="noop", framework_version="1")
    refused(holdall.UsageError, "package/runner", onnx, out, framework_version="one")
    refused(holdall.UsageError, "python/option", onnx, out, compress="gzip")
    refused(holdall.UsageError, "python/option", onnx, out, options={"a": object()})
    refused(holdall.UsageError, "python/dtype", onnx, out, inputs=[("x", "float16", (1,))])
    refused(holdall.UnsupportedError, "python/dtype", onnx, out, tensors={"x": np.zeros(2, np.float16)})
    refused(holdall.UnsupportedError, "python/dtype", onnx, out, tensors={"x": np.array([None])})
    refused(holdall.UnsupportedError, "python/dtype", onnx, out, tensors={"x": np.array([b"x"])})
    refused(holdall.UsageError, "signature/value", onnx, out, tensors={"x": [x, x.astype("f8")]})
    refused(holdall.MalformedError, "carton/reference", onnx, out, self_tests=[{"inputs": {"x": "nope"}}])
    refused(TypeError, None, onnx, out, self_tests={"inputs": {"x": x}})
    refused(TypeError, None, onnx, out, self_tests=[{"inputs": {"x": x}, "expect": {}}])
    refused(TypeError, None, onnx, out, self_tests=[{"inputs": [x]}])
    refused(TypeError, None, onnx, out, platforms="x86_64-unknown-linux-gnu")
    refused(TypeError, None, onnx, out, tensors=[x])
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 100)
    with pytest.raises(holdall.MalformedError):
        carton.pack(tmp_path / "bad.onnx", out)
    with pytest.raises(holdall.UsageError) as info:
        carton.pack(onnx, xor, overwrite=False)
    assert "overwrite=True" in info.value.hint
    # A self-test that does not match the description is packed, with a warning.
    report = carton.pack(onnx, out, self_tests=[{"inputs": {"x": np.zeros((1, 3), np.float32)}}])
    assert [w.code for w in report.warnings] == ["carton/self-test"]


def test_pack_tells_of_inputs_that_no_package_declares(tmp_path):
    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    # A graph with one input of 16-bit floats, which no Carton has: version 8, operators of version 13.
    kind = field(1, b"\x08\x0a" + field(2, b""))
    graph = field(2, b"g") + field(11, field(1, b"half") + field(2, kind))
    (tmp_path / "half.onnx").write_bytes(b"\x08\x08" + field(7, graph) + field(8, b"\x10\x0d"))
    (warning,) = carton.pack(tmp_path / "half.onnx").warnings
    assert (warning.code, warning.tensor) == ("python/undeclared", "half") and "float16" in warning.message
    with carton.open(tmp_path / "half.carton") as p:
        assert p.inputs == () and p.runner.framework_version == ">=1.8, <2" and p.name == "g"


def test_pack_tells_of_progress_and_can_be_stopped(tmp_path):
    (tmp_path / "m/model").mkdir(parents=True)
    (tmp_path / "m/model/w.bin").write_bytes(bytes(64 << 20))

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carton.pack(tmp_path / "m", runner="noop", framework_version="1", progress=stop)
    assert not (tmp_path / "m.carton").exists()
    seen = []
    carton.pack(tmp_path / "m", runner="noop", framework_version="1", progress=lambda *x: seen.append(x))
    assert seen[-1][0] == seen[-1][1] >= 64 << 20


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder on a server of this machine, and an empty cache."""
    folder = tmp_path / "served"
    folder.mkdir()
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            asked.append(self.path)
            file = folder / self.path.lstrip("/")
            if not file.is_file():
                self.send_error(404)
                return
            data, status, headers = file.read_bytes(), 200, {"Accept-Ranges": "bytes", "ETag": '"1"'}
            if span := self.headers.get("Range"):
                start, _, end = span.removeprefix("bytes=").partition("-")
                if not start:
                    start, end = max(0, len(data) - int(end)), ""
                start, end = int(start), min(int(end or len(data) - 1), len(data) - 1)
                headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
                data, status = data[start : end + 1], 206
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HOLDALL_CACHE", str(tmp_path / "cache"))
    yield folder, f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


def test_addresses_and_links(tmp_path, served, zt, arrays):
    folder, base, asked = served
    web = {"allow": ["http", "private-hosts"]}
    whole = carton.pack(zt, tmp_path / "w.carton", runner="noop", framework_version="1")
    small = carton.shrink(
        whole.path, folder / "s.carton", base_url=base + "/{sha256}", at_least=1000, save_files=folder, **web
    )
    assert small.hash == whole.hash and small.linked == 1 and small.nbytes < whole.nbytes
    # Where it is, only as much as is allowed.
    with pytest.raises(holdall.UsageError) as info:
        carton.open(f"{base}/s.carton")
    assert info.value.code == "http/scheme" and not asked
    with pytest.raises(holdall.UsageError) as info:
        holdall.open(f"{base}/s.carton", allow=["http"])
    assert info.value.code == "http/private-host" and 'allow=["private-hosts"]' in info.value.hint and not asked
    with carton.open(f"{base}/s.carton", **web) as p:
        file = p.files["model/a.zt"]
        assert file.location == "links" and file.urls == (f"{base}/{file.sha256}",)
        assert "only linked to" in p._repr_html_()
    with carton.open(folder / "s.carton", offline=True, **web) as p:
        with pytest.raises(holdall.NotFoundError) as info:
            p.read("model/a.zt")
        assert info.value.code == "links/offline"
        assert p.verify().verdict == "incomplete"
    with carton.open(folder / "s.carton", limits={"fetched_len": 100}, **web) as p:
        with pytest.raises(holdall.LimitError) as info:
            p.fetch()
        assert info.value.code == "http/too-long" and 'limits={"fetched_len": N}' in info.value.hint
    with carton.open(folder / "s.carton", **web) as p:
        assert p.fetch() == 1
    with carton.open(folder / "s.carton", offline=True) as p:
        assert p.verify().verdict == "sound"
        assert p.read("model/a.zt") == zt.read_bytes()
        assert np.array_equal(p.open("model/a.zt")["w"].numpy(), arrays["w"])
    assert np.array_equal(holdall.load(f"{folder}/s.carton!/model/a.zt")["w"], arrays["w"])
    with holdall.open(f"{folder}/s.carton!/model/a.zt", offline=True) as f:
        assert set(f) == set(arrays)
    back = carton.fetch(folder / "s.carton", tmp_path / "back.carton", offline=True)
    assert back.hash == whole.hash and back.linked == 0
    assert carton.open(tmp_path / "back.carton").verify().verdict == "sound"
    with pytest.raises(holdall.UsageError):
        carton.shrink(whole.path, tmp_path / "n.carton")
    with pytest.raises(holdall.NotFoundError):
        carton.shrink(whole.path, tmp_path / "n.carton", links={"nope": "https://example.com/x"})


def test_tensors_that_a_package_links_to_are_tensors(tmp_path, served):
    folder, base, asked = served
    web = {"allow": ["http", "private-hosts"]}
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "x").write_text("x")
    wanted = np.arange(1200, dtype="float32").reshape(2, 600)
    whole = carton.pack(tmp_path / "m", tmp_path / "w.carton", runner="noop", framework_version="1", tensors={"w": wanted})
    small = carton.shrink(whole.path, folder / "s.carton", base_url=base + "/{sha256}", at_least=4000, save_files=folder, **web)
    assert small.linked == 1
    with holdall.open(folder / "s.carton", offline=True, **web) as f:
        t = f["w"]
        assert (t.shape, t.dtype, t.layout) == ((2, 600), "float32", "dense")
        with pytest.raises(holdall.HoldallError) as info:
            t.numpy()
        assert info.value.code == "package/not-here" and info.value.hint
    asked.clear()
    with holdall.open(folder / "s.carton", **web) as f:
        assert list(f) == ["w"] and not asked
        assert np.array_equal(f["w"].numpy(), wanted) and asked
    with holdall.open(folder / "s.carton", offline=True, **web) as f:
        assert np.array_equal(f["w"].numpy(), wanted)
