"""The package ``onnx`` over models that Holdall writes weights into."""

import numpy as np
import pytest

import holdall

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


@pytest.fixture
def model(tmp_path):
    """y = relu(x @ w + b), and a branch with weights of its own."""
    rng = np.random.default_rng(5)
    w, b = rng.normal(size=(64, 32)).astype("f4"), rng.normal(size=32).astype("f4")
    inner = numpy_helper.from_array(np.full(32, 2, "f4"), "inner")
    branch = helper.make_graph(
        [helper.make_node("Identity", ["inner"], ["chosen"])], "branch", [],
        [helper.make_tensor_value_info("chosen", TensorProto.FLOAT, [32])], [inner],
    )  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["xw"]),
            helper.make_node("Add", ["xw", "b"], ["sum"], doc_string="adds"),
            helper.make_node("If", ["yes"], ["extra"], "choice", then_branch=branch, else_branch=branch),
            helper.make_node("Add", ["sum", "extra"], ["all"]),
            helper.make_node("Relu", ["all"], ["y"]),
        ],
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b"),
         helper.make_tensor("yes", TensorProto.BOOL, [], [True])],
    )  # fmt: skip
    out = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(out, full_check=True)
    path = tmp_path / "model.onnx"
    onnx.save(out, path)
    return path


def initializers(path):
    return {i.name: numpy_helper.to_array(i, str(path.parent)) for i in onnx.load(path).graph.initializer}


def run(path, x):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.load(path)).run(None, {"x": x})[0]


def test_weights_go_into_the_graph(model, tmp_path):
    w = np.arange(64 * 32, dtype="f4").reshape(64, 32)
    holdall.save(tmp_path / "w.safetensors", {"net.w": w, "choice.then_branch.inner": np.zeros(32, "f4"), "net.yes": np.array(False)})
    out = tmp_path / "out.onnx"
    names = {"rename": ["net.*=*"], "graph": model}
    holdall.convert(tmp_path / "w.safetensors", out, **names)
    onnx.checker.check_model(out, full_check=True)
    was, now = onnx.load(model), onnx.load(out)
    assert not initializers(out)["yes"]
    np.testing.assert_array_equal(initializers(out)["w"], w)
    np.testing.assert_array_equal(initializers(out)["b"], initializers(model)["b"])
    branch = next(a.g for a in now.graph.node[2].attribute if a.name == "then_branch")
    np.testing.assert_array_equal(numpy_helper.to_array(branch.initializer[0]), np.zeros(32))
    # All else is the same.
    del was.graph.initializer[:], now.graph.initializer[:]
    del was.graph.node[2], now.graph.node[2]
    assert was == now
    # Itself alone: byte for byte.
    holdall.convert(model, out, overwrite=True)
    assert out.read_bytes() == model.read_bytes()
    holdall.convert(tmp_path / "w.safetensors", out, overwrite=True, exclude=["*yes"], **names)
    x = np.ones((2, 64), "f4")
    b = initializers(model)["b"]
    np.testing.assert_allclose(run(out, x), np.maximum(x @ w + b, 0), rtol=1e-5)


def test_weights_of_other_types_are_cast(model, tmp_path):
    out = tmp_path / "out.onnx"
    for dtype, of in [("f16", TensorProto.FLOAT16), ("bf16", TensorProto.BFLOAT16), ("f8_e4m3fn", TensorProto.FLOAT8E4M3FN)]:
        report = holdall.convert(model, out, dtype={"w": dtype, "b": dtype}, overwrite=True)
        assert report.cast == 2
        onnx.checker.check_model(out, full_check=True)
        found = {i.name: i for i in onnx.load(out).graph.initializer}
        assert set(found) == {"w.stored", "b.stored", "yes"} and found["w.stored"].data_type == of
        x = np.random.default_rng(1).normal(size=(3, 64)).astype("f4")
        near = {"f16": 1e-2, "bf16": 1e-1, "f8_e4m3fn": 2.0}[dtype]
        np.testing.assert_allclose(run(out, x), run(model, x), atol=near)
    holdall.save(tmp_path / "w.npz", {"w": np.zeros((64, 32), "f2")})
    with pytest.raises(holdall.UnsupportedError, match="f16.*f32"):
        holdall.convert(tmp_path / "w.npz", out, graph=model, overwrite=True)
    with pytest.raises(holdall.UsageError) as e:
        holdall.convert(tmp_path / "w.npz", tmp_path / "no.onnx")
    assert {"do": "name_graph"} in e.value.remedies


def test_external_data(model, tmp_path):
    out = tmp_path / "sub" / "out.onnx"
    out.parent.mkdir()
    report = holdall.convert(model, out, external="1KiB")
    assert report.files == ["out.onnx", "out.onnx.data"] and out.stat().st_size < 2000
    onnx.checker.check_model(out, full_check=True)
    for name, array in initializers(model).items():
        np.testing.assert_array_equal(initializers(out)[name], array)
    external = {i.name: {e.key: e.value for e in i.external_data} for i in onnx.load(out, load_external_data=False).graph.initializer}
    assert external["w"] == {"location": "out.onnx.data", "offset": "0", "length": "8192"} and not external["b"]
    # What the package wrote beside its model, and back into one.
    other = tmp_path / "other.onnx"
    onnx.save(onnx.load(model), other, save_as_external_data=True, location="weights.bin", size_threshold=0)
    holdall.convert(other, out, external="none", overwrite=True)
    assert not (out.parent / "out.onnx.data").exists()
    for name, array in initializers(model).items():
        np.testing.assert_array_equal(initializers(out)[name], array)
    x = np.ones((1, 64), "f4")
    np.testing.assert_array_equal(run(out, x), run(model, x))


def test_a_graph_that_the_built_in_engine_cannot_run_is_packed_with_a_warning(tmp_path):
    texts = helper.make_tensor_value_info("words", TensorProto.STRING, ["n"])
    lower = helper.make_node("StringNormalizer", ["words"], ["y"], case_change_action="LOWER")
    trees = helper.make_node("LabelEncoder", ["y"], ["n"], domain="ai.onnx.ml", keys_strings=["a"], values_int64s=[1])
    result = helper.make_tensor_value_info("n", TensorProto.INT64, ["n"])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([lower, trees], "texts", [texts], [result])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "texts.onnx")
    report = holdall.carton.pack(tmp_path / "texts.onnx", tmp_path / "texts.carton")
    [warning] = [w for w in report.warnings if w.code == "onnx/built-in"]
    for text in ("ai.onnx.StringNormalizer", "ai.onnx.ml.LabelEncoder", "`words`", "ONNX Runtime"):
        assert text in warning.message
    with pytest.raises(holdall.UnsupportedError):
        holdall.carton.run(tmp_path / "texts.carton", {"words": np.array(["A"])})


def test_a_graph_that_runs_is_packed_without_a_warning(model, tmp_path):
    report = holdall.carton.pack(model, tmp_path / "model.carton")
    assert [w.code for w in report.warnings] == []
    x = np.ones((2, 64), "f4")
    assert np.allclose(holdall.carton.run(tmp_path / "model.carton", {"x": x})["y"], run(model, x), atol=1e-4)
