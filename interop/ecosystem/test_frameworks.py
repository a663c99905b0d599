"""Arrays of the other frameworks, where they are installed."""

import numpy as np
import pytest
from conftest import raw

import holdall.safetensors as hs

DTYPES = ["float32", "float16", "int32", "int8", "uint8", "bool"]


def arrays():
    rng = np.random.default_rng(3)
    out = {name: rng.integers(0, 2, (3, 4)).astype(name) for name in DTYPES}
    return {**out, "one": np.array(1.5, "f4"), "none": np.zeros((0, 4), "f4")}


def framework(name):
    if name == "flax":
        jnp = pytest.importorskip("jax.numpy")
        return jnp.asarray, np.asarray, jnp.bfloat16
    if name == "mlx":
        mx = pytest.importorskip("mlx.core")
        return mx.array, np.asarray, mx.bfloat16
    if name == "tensorflow":
        tf = pytest.importorskip("tensorflow")
        return tf.convert_to_tensor, lambda x: x.numpy(), tf.bfloat16
    paddle = pytest.importorskip("paddle")
    return paddle.to_tensor, lambda x: x.numpy(), paddle.bfloat16


@pytest.mark.parametrize("name", ["flax", "mlx", "tensorflow", "paddle"])
def test_there_and_back(name, tmp_path):
    make, numpy, bfloat16 = framework(name)
    import importlib

    module = importlib.import_module(f"safetensors.{name}")
    assert module.__name__ == f"holdall.safetensors.{name}"
    given = {key: make(a) for key, a in arrays().items()}
    path = tmp_path / "a.safetensors"
    module.save_file(given, path, metadata={"k": "v"})
    assert module.save(given, metadata={"k": "v"}) == path.read_bytes()
    for found in (module.load_file(path), module.load_file(path, backend="pread"), module.load(path.read_bytes())):
        assert set(found) == set(given)
        for key, a in arrays().items():
            assert type(found[key]) is type(given[key]) and found[key].dtype == given[key].dtype, key
            assert np.array_equal(numpy(found[key]), a) and tuple(found[key].shape) == a.shape, key
    with hs.safe_open(path, framework=name) as f:
        part = f.get_slice("float32")[1:, ::2]
        assert type(part) is type(given["float32"]) and np.array_equal(numpy(part), arrays()["float32"][1:, ::2])
        assert np.array_equal(numpy(f.get_tensor("int8")), arrays()["int8"])


@pytest.mark.parametrize("name", ["flax", "mlx", "tensorflow", "paddle"])
def test_bfloat16(name, tmp_path):
    import importlib

    make, _, bfloat16 = framework(name)
    module = importlib.import_module(f"safetensors.{name}")
    x = make(np.array([1.0, 2.25, -3.0], "f4"))
    x = {
        "flax": lambda: x.astype(bfloat16),
        "mlx": lambda: x.astype(bfloat16),
        "tensorflow": lambda: __import__("tensorflow").cast(x, bfloat16),
        "paddle": lambda: x.astype(bfloat16),
    }[name]()
    module.save_file({"a": x}, tmp_path / "a.safetensors")
    assert raw(tmp_path / "a.safetensors")["a"] == ("BF16", [3], np.array([0x3F80, 0x4010, 0xC040], "<u2").tobytes())
    found = module.load_file(tmp_path / "a.safetensors")["a"]
    assert found.dtype == bfloat16
    module.save_file({"a": found}, tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@pytest.mark.parametrize("between", ["zt", "safetensors", None])
def test_keras(between, tmp_path, monkeypatch):
    """Keras loads weights and whole models that were converted, there and back through another format."""
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    pytest.importorskip("jax")
    keras = pytest.importorskip("keras")
    import holdall

    def model(seed):
        keras.utils.set_random_seed(seed)
        given = keras.Input((8, 8, 3))
        x = keras.layers.Conv2D(4, 3, name="conv")(given)
        x = keras.layers.Flatten(name="flat")(keras.layers.BatchNormalization(name="norm")(x))
        return keras.Model(given, keras.layers.Dense(5, name="out")(x))

    made = model(1)
    made.compile("adam", "mse")
    x = np.random.default_rng(5).random((2, 8, 8, 3), "f4")
    made.fit(x, np.ones((2, 5), "f4"), verbose=0)
    wanted = np.asarray(made(x))
    made.save_weights(tmp_path / "own.weights.h5")
    made.save(tmp_path / "own.keras")
    made.save(tmp_path / "own.h5")

    def converted(name, out):
        path, out = tmp_path / name, tmp_path / out
        if between is not None:
            holdall.convert(path, tmp_path / f"between.{between}", overwrite=True)
            path = tmp_path / f"between.{between}"
        holdall.convert(path, out)
        return out

    for number, name in enumerate(["own.weights.h5", "own.keras"]):
        other = model(2)
        other.load_weights(converted(name, f"{number}.weights.h5"))
        assert np.array_equal(np.asarray(other(x)), wanted), name
    whole = keras.models.load_model(converted("own.h5", "whole.h5"), compile=False)
    assert np.array_equal(np.asarray(whole(x)), wanted)
