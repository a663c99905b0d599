"""Builds the 6-layer MiniLM sentence encoder as a package that is not packed yet: the graph by hand from the weights
in safetensors, and a self-test whose expected output a forward pass in NumPy gives.

    python minilm.py FOLDER_OF_THE_MODEL TARGET

FOLDER_OF_THE_MODEL has model.safetensors, config.json and vocab.txt.
"""

import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SENTENCES = [
    "a man is playing a guitar",
    "someone plays an instrument",
    "the price of oil fell on monday",
]


def tensors(path):
    """The tensors of a safetensors file: a length, a JSON header, the elements."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, row in header.items():
        dtype = {"F32": "<f4", "I64": "<i8"}[row["dtype"]]
        start, end = row["data_offsets"]
        part = np.frombuffer(data, dtype, (end - start) // int(dtype[2]), 8 + size + start)
        out[name] = part.reshape(row["shape"])
    return out


class Graph:
    """Nodes and weights, named as they come."""

    def __init__(self):
        self.nodes, self.weights, self.count = [], {}, 0

    def weight(self, array, name=None):
        name = name or f"c{len(self.weights)}"
        self.weights.setdefault(name, np.ascontiguousarray(array))
        return name

    def __call__(self, op, *inputs, out=None, **attributes):
        self.count += 1
        out = out or f"{op.lower()}_{self.count}"
        names = [i if isinstance(i, str) else self.weight(i) for i in inputs]
        self.nodes.append(helper.make_node(op, names, [out], **attributes))
        return out


def build(w, config):
    heads, width, layers = (config[k] for k in ("num_attention_heads", "hidden_size", "num_hidden_layers"))
    eps, each = config["layer_norm_eps"], width // heads
    f32, i64 = (lambda x: np.array(x, np.float32)), (lambda x: np.array(x, np.int64))
    g = Graph()
    dense = lambda x, name: g(
        "Add", g("MatMul", x, g.weight(w[name + ".weight"].T, name + ".weight")), g.weight(w[name + ".bias"], name + ".bias")
    )
    norm = lambda x, name: g(
        "LayerNormalization", x, g.weight(w[name + ".weight"], name + ".weight"), g.weight(w[name + ".bias"], name + ".bias"),
        axis=-1, epsilon=eps,
    )
    table = lambda name: g.weight(w[f"embeddings.{name}_embeddings.weight"], name)

    words = g("Gather", table("word"), "input_ids")
    length = g("Slice", g("Shape", "input_ids"), i64([1]), i64([2]))
    positions = g("Slice", table("position"), i64([0]), length, i64([0]))
    types = g("Gather", table("token_type"), i64(0))
    h = norm(g("Add", g("Add", words, positions), types), "embeddings.LayerNorm")

    kept = g("Cast", "attention_mask", to=TensorProto.FLOAT)
    hidden = g("Mul", g("Sub", f32(1), g("Unsqueeze", kept, i64([1, 2]))), f32(-10000))
    split = i64([0, 0, heads, each])
    for n in range(layers):
        p = f"encoder.layer.{n}."
        part = lambda name: g("Reshape", dense(h, p + "attention.self." + name), split)
        q = g("Transpose", part("query"), perm=[0, 2, 1, 3])
        k = g("Transpose", part("key"), perm=[0, 2, 3, 1])
        v = g("Transpose", part("value"), perm=[0, 2, 1, 3])
        scores = g("Add", g("Div", g("MatMul", q, k), f32(math.sqrt(each))), hidden)
        mixed = g("MatMul", g("Softmax", scores, axis=-1), v)
        mixed = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), i64([0, 0, width]))
        h = norm(g("Add", dense(mixed, p + "attention.output.dense"), h), p + "attention.output.LayerNorm")
        wide = dense(h, p + "intermediate.dense")
        gate = g("Add", g("Erf", g("Div", wide, f32(math.sqrt(2)))), f32(1))
        wide = g("Mul", g("Mul", wide, gate), f32(0.5))
        h = norm(g("Add", dense(wide, p + "output.dense"), h), p + "output.LayerNorm")

    each_kept = g("Unsqueeze", kept, i64([2]))
    total = g("ReduceSum", g("Mul", h, each_kept), i64([1]), keepdims=0)
    mean = g("Div", total, g("ReduceSum", kept, i64([1]), keepdims=1))
    g("Div", mean, g("ReduceL2", mean, axes=[1], keepdims=1), out="embedding")

    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        g.nodes,
        "minilm",
        [info(n, TensorProto.INT64, ["batch", "tokens"]) for n in ("input_ids", "attention_mask")],
        [info("embedding", TensorProto.FLOAT, ["batch", width])],
        [numpy_helper.from_array(array, name) for name, array in g.weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="minilm.py")
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def forward(w, config, ids, mask):
    """The same in NumPy and 64-bit floats."""
    heads, width, eps = config["num_attention_heads"], config["hidden_size"], config["layer_norm_eps"]
    w = {name: array.astype(np.float64) for name, array in w.items() if array.dtype.kind == "f"}
    dense = lambda x, name: x @ w[name + ".weight"].T + w[name + ".bias"]
    erf = np.vectorize(math.erf)

    def norm(x, name):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(var + eps) * w[name + ".weight"] + w[name + ".bias"]

    h = w["embeddings.word_embeddings.weight"][ids]
    h = h + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
    h = norm(h + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    hidden = (1.0 - mask)[:, None, None, :] * -10000
    for n in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{n}."
        part = lambda name: dense(h, p + "attention.self." + name).reshape(*ids.shape, heads, -1).swapaxes(1, 2)
        q, k, v = part("query"), part("key"), part("value")
        scores = q @ k.swapaxes(2, 3) / math.sqrt(width // heads) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(*ids.shape, width)
        h = norm(dense(mixed, p + "attention.output.dense") + h, p + "attention.output.LayerNorm")
        wide = dense(h, p + "intermediate.dense")
        wide = 0.5 * wide * (1 + erf(wide / math.sqrt(2)))
        h = norm(dense(wide, p + "output.dense") + h, p + "output.LayerNorm")
    mean = (h * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


TOML = """spec_version = 1
model_name = "all-MiniLM-L6-v2"
short_description = "Vectors of sentences, near each other where they mean the same"
license = "Apache-2.0"

[[input]]
name = "input_ids"
dtype = "int64"
shape = ["batch", "tokens"]
description = "Numbers of word pieces, [CLS] first and [SEP] last"

[[input]]
name = "attention_mask"
dtype = "int64"
shape = ["batch", "tokens"]
description = "1 for a word piece, 0 for what fills up the row"

[[output]]
name = "embedding"
dtype = "float32"
shape = ["batch", {width}]
description = "Of length 1"

[[self_test]]
name = "three sentences"
inputs = {{ input_ids = "@tensor_data/ids", attention_mask = "@tensor_data/mask" }}
expected_out = {{ embedding = "@tensor_data/embedding" }}

[self_test.compare]
rtol = 1e-4
atol = 1e-6

[runner]
runner_name = "onnx"
required_framework_version = "1"
runner_compat_version = 1
"""


def main(source, target):
    w, config = tensors(source / "model.safetensors"), json.loads((source / "config.json").read_text())
    w = {name.removeprefix("bert."): array for name, array in w.items()}
    vocabulary = {word: n for n, word in enumerate((source / "vocab.txt").read_text().split("\n"))}
    rows = [[vocabulary[word] for word in f"[CLS] {s} [SEP]".split(" ")] for s in SENTENCES]
    longest = max(map(len, rows))
    ids = np.array([row + [0] * (longest - len(row)) for row in rows], np.int64)
    mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in rows], np.int64)
    expected = forward(w, config, ids, mask)
    near = expected @ expected.T
    print("cosines:", *(f"{near[a, b]:.4f}" for a, b in ((0, 1), (0, 2), (1, 2))))

    for folder in ("model", "tensor_data"):
        (target / folder).mkdir(parents=True, exist_ok=True)
    (target / "model/model.onnx").write_bytes(build(w, config).SerializeToString(deterministic=True))
    (target / "carton.toml").write_text(TOML.format(width=config["hidden_size"]))
    index = []
    for n, (name, array) in enumerate((("ids", ids), ("mask", mask), ("embedding", expected.astype("<f4")))):
        (target / f"tensor_data/tensor_{n}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
        row = f'[[tensor]]\nname = "{name}"\ndtype = "{array.dtype.name}"\nshape = {list(array.shape)}\n'
        index.append(row + f'file = "tensor_{n}.bin"\ninner = []\n')
    (target / "tensor_data/index.toml").write_text("\n".join(index))


main(Path(sys.argv[1]), Path(sys.argv[2]))
