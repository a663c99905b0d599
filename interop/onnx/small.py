"""Writes the small ONNX models that tests and the guide run, with what the reference evaluator of the `onnx`
package says they give.

    python interop/onnx/small.py        from the root of the repository
"""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

TESTS = Path("crates/holdall-run/tests/onnx")
EXAMPLE = Path("examples/xor")
F32, F64, I64, BOOL = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.BOOL


def model(name, nodes, inputs, outputs, weights, opset=17, domain=None):
    infos = lambda of: [helper.make_tensor_value_info(n, t, s) for n, t, s in of]
    tensors = [numpy_helper.from_array(array, n) for n, array in weights.items()]
    graph = helper.make_graph(nodes, name, infos(inputs), infos(outputs), tensors)
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    made = helper.make_model(graph, opset_imports=opsets, producer_name="small.py")
    made.ir_version = 8
    if not domain:
        onnx.checker.check_model(made, full_check=True)
    return made


def xor(strength):
    """Two hidden units say whether any, and whether both, of two numbers are set."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h1"]),
        helper.make_node("Add", ["h1", "b1"], ["h2"]),
        helper.make_node("Relu", ["h2"], ["h3"]),
        helper.make_node("Gemm", ["h3", "w2", "b2"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["p"], axis=-1),
        helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0),
    ]
    weights = {
        "w1": np.array([[1, 1], [1, 1]], np.float32),
        "b1": np.array([0, -1], np.float32),
        "w2": np.array([[-1, 1], [2, -2]], np.float32) * strength,
        "b2": np.array([0.5, -0.5], np.float32) * strength,
    }
    inputs = [("x", F32, ["n", 2])]
    return model("xor", nodes, inputs, [("p", F32, ["n", 2]), ("label", I64, ["n"])], weights)


def tokens():
    """Vectors of tokens, and their sum over those that a mask keeps."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["kept"], to=F32),
        helper.make_node("Mul", ["rows", "kept"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "one"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["mask", "one"], ["count"], keepdims=0),
        helper.make_node("Greater", ["count", "zero"], ["any"]),
    ]
    weights = {
        "table": np.arange(30, dtype=np.float32).reshape(10, 3) / 4,
        "last": np.array([-1], np.int64),
        "one": np.array([1], np.int64),
        "zero": np.array(0, np.int64),
    }
    inputs = [("ids", I64, ["n", "t"]), ("mask", I64, ["n", "t"])]
    outputs = [("sum", F32, ["n", 3]), ("count", I64, ["n"]), ("any", BOOL, ["n"])]
    return model("tokens", nodes, inputs, outputs, weights)


def double():
    nodes = [helper.make_node("Mul", ["x", "two"], ["y"])]
    weights = {"two": np.array(2, np.float64)}
    return model("double", nodes, [("x", F64, ["n"])], [("y", F64, ["n"])], weights)


def unsupported():
    nodes = [helper.make_node("Frobnicate", ["x"], ["y"], domain="org.example")]
    spec = ("x", F32, ["n"]), ("y", F32, ["n"])
    return model("unsupported", nodes, [spec[0]], [spec[1]], {}, domain="org.example")


def texts():
    """The engine has no texts."""
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    kind = TensorProto.STRING
    return model("texts", nodes, [("x", kind, ["n"])], [("y", kind, ["n"])], {})


def broken_shapes():
    """Sound to the checker: whether the reshape can be is known when it runs."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    inputs = [("x", F32, ["n"]), ("shape", I64, ["k"])]
    return model("reshape", nodes, inputs, [("y", F32, ["a", "b"])], {})


def endless():
    """As good as: it counts to two thousand million."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "x"], ["w"])],
        "body",
        [info("i", I64, []), info("go", BOOL, []), info("v", F32, ["n"])],
        [info("on", BOOL, []), info("w", F32, ["n"])],
    )
    nodes = [helper.make_node("Loop", ["times", "", "x"], ["y"], body=body)]
    weights = {"times": np.array(2**31 - 1, np.int64)}
    return model("endless", nodes, [("x", F32, ["n"])], [("y", F32, ["n"])], weights)


def listed(array):
    dtype = "uint8" if array.dtype == bool else array.dtype.name
    return {"dtype": dtype, "shape": list(array.shape), "data": array.reshape(-1).tolist()}


def main():
    TESTS.mkdir(parents=True, exist_ok=True)
    cases = {}
    for name, make, inputs in [
        ("xor", lambda: xor(4), {"x": np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.25]], np.float32)}),
        (
            "tokens",
            tokens,
            {
                "ids": np.array([[1, 2, 9], [3, 0, 0]], np.int64),
                "mask": np.array([[1, 1, 1], [0, 0, 0]], np.int64),
            },
        ),
        ("double", double, {"x": np.array([0.5, -3, 1e30], np.float64)}),
        ("unsupported", unsupported, None),
        ("texts", texts, None),
        ("reshape", broken_shapes, None),
        ("endless", endless, None),
    ]:
        made = make()
        (TESTS / f"{name}.onnx").write_bytes(made.SerializeToString(deterministic=True))
        if inputs is not None:
            given = ReferenceEvaluator(made).run(None, inputs)
            outputs = {o.name: np.asarray(v) for o, v in zip(made.graph.output, given)}
            sides = [{n: listed(a) for n, a in side.items()} for side in (inputs, outputs)]
            cases[name] = dict(zip(("inputs", "outputs"), sides))
    (TESTS / "expected.json").write_text(json.dumps(cases, indent=1) + "\n")

    # The package of the guide, unpacked: its self-tests' tensors, as they are stored.
    x = np.array(cases["xor"]["inputs"]["x"]["data"][:8], "<f4")
    # So strong that its probabilities are 0 and 1 on every machine.
    certain = xor(200)
    given = ReferenceEvaluator(certain).run(None, {"x": x.reshape(4, 2)})
    for folder in ("model", "tensor_data"):
        (EXAMPLE / folder).mkdir(parents=True, exist_ok=True)
    (EXAMPLE / "model/model.onnx").write_bytes(certain.SerializeToString(deterministic=True))
    rows = []
    for name, array in (("x", x.reshape(4, 2)), ("p", given[0]), ("label", given[1])):
        file = f"tensor_{len(rows)}.bin"
        (EXAMPLE / "tensor_data" / file).write_bytes(np.ascontiguousarray(array).tobytes())
        shape = list(array.shape)
        row = f'[[tensor]]\nname = "{name}"\ndtype = "{array.dtype.name}"\nshape = {shape}\n'
        rows.append(row + f'file = "{file}"\ninner = []\n')
    (EXAMPLE / "tensor_data/index.toml").write_text("\n".join(rows))


main()
