"""Writes the accepted files of Flax in the corpus, with Flax itself, and a pickle of arrays of JAX, with what they are beside.

    pip install flax==0.12.8 && python interop/others/flax_files.py        from the root of the repository
"""

import hashlib
import json
import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from flax import serialization

FOLDER = Path("corpus/accept/flax")
TYPES = (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 complex64 complex128 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
).split()


def noise(name, shape, seed):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    bits = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
    return bits.view(dtype).reshape(shape)


def write(name, tree):
    (FOLDER / f"{name}.msgpack").write_bytes(serialization.msgpack_serialize(tree, in_place=True))


FOLDER.mkdir(parents=True, exist_ok=True)
types = {name: noise(name, (2, 3), seed) for seed, name in enumerate(TYPES)}
types["bool"] = np.array([[True, False, True]])
write("flax_types", {"types": types, "empty": np.zeros((0, 4), np.float32), "scalar": np.float32(1.5)})

state = {
    "params": {"dense": {"kernel": jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3), "bias": jnp.ones(3)}},
    "step": 3,
    "opt_state": {"0": {"count": np.int32(7)}, "1": [np.zeros(2, np.float32), "sgd", None]},
    "rate": 0.25,
    "z": complex(1, -2),
    "note": "räksmörgås",
    "raw": b"\x00\x01",
    "big": 2**63,
    "is_done": False,
    7: np.arange(3, dtype=np.int16),
}
write("flax_state", state)

# An array of more than this many bytes is written in chunks: of 1 GiB, were it not for small files.
serialization.MAX_CHUNK_SIZE = 16
write("flax_chunked", {"params": {"w": np.arange(15, dtype=np.float32).reshape(3, 5), "b": np.ones(2, np.float32)}})

arrays = {"kernel": jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3), "bias": jnp.ones(3), "count": jnp.int32(7), "empty": jnp.ones((0, 2))}
path = Path("corpus/accept/pytorch/jax_arrays.pkl")
path.write_bytes(pickle.dumps({"dense": arrays, "step": 3}))
NAMES = {"bfloat16": "bf16", "float32": "f32", "int32": "i32"}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


rows = [
    {"name": f"dense.{name}", "dtype": NAMES[array.dtype.name], "shape": list(array.shape), "dense_sha256": sha256(np.asarray(array).tobytes())}
    for name, array in arrays.items()
]
expect = {
    "file": path.name, "producer": f"jax {jax.__version__}", "container": "pytorch", "verdict": "accept", "file_size": path.stat().st_size,
    "file_sha256": sha256(path.read_bytes()), "tensors": rows,
}
Path(f"{path}.expect.json").write_text(json.dumps(expect, indent=1))
