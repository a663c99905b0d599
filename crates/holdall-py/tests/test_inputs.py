"""Lists as the inputs of models: of texts, of numbers, of NumPy's scalars."""

import tracemalloc

import numpy as np
import pytest

import holdall
from holdall import carton


@pytest.fixture
def echo(tmp_path):
    """A model that gives back what it is given, of three declared types."""
    (tmp_path / "echo").mkdir()
    (tmp_path / "echo/w").write_bytes(b"w")
    specs = [("s", "string", "*"), ("f", "float32", "*"), ("u", "uint64", "*")]
    carton.pack(tmp_path / "echo", runner="noop", framework_version="1", inputs=specs)
    with carton.load(tmp_path / "echo.carton") as model:
        yield lambda **one: model(**{"s": "", "f": 0, "u": 0, **one})[next(iter(one))]


def test_lists_of_texts(echo):
    for given in (["a\0", "b"], ("a\0", "b"), [np.str_("a\0"), "b"]):
        assert echo(s=given).tolist() == ["a\0", "b"]
    for given in ("a\0", np.str_("a\0")):
        assert echo(s=given).shape == () and echo(s=given)[()] == "a\0"
    assert echo(s=[["a\0"], ("b",)]).tolist() == [["a\0"], ["b"]]
    assert echo(s=[]).shape == (0,) and echo(s=[[], []]).shape == (2, 0)
    for mixed in (["a", 1, 2.5], [["a"], [None]], ["a", b"b"], ["a", np.float32(1)]):
        with pytest.raises(TypeError, match="input 's' has texts and"):
            echo(s=mixed)
    for ragged in (["a", ["b"]], [["a"], ["b", "c"]], [["a"], []], [["a"], [["b"]]]):
        with pytest.raises(holdall.UsageError, match="input 's' does not form an array") as info:
            echo(s=ragged)
        assert info.value.code == "python/shape"
    # One long text among many short ones costs what it is long, not that for each.
    tracemalloc.start()
    assert echo(s=["x" * 1_000_000] + ["y"] * 500).shape == (501,)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


def test_lists_of_scalars(echo):
    for given in ([np.float32(1), np.float32(2)], [np.float64(1), 2], [np.int64(1), np.float16(2)], (1.0, 2.0)):
        out = echo(f=given)
        assert out.dtype == np.float32 and out.tolist() == [1, 2]
    assert echo(f=[[np.float64(1)], [2]]).tolist() == [[1], [2]]
    for given in ([np.uint64(2**64 - 1), np.uint8(1)], [2**64 - 1, 1]):
        assert echo(u=given).dtype == np.uint64 and echo(u=given).tolist() == [2**64 - 1, 1]
    for wrong in ([np.float32(1)], [np.int64(-1)], [-1], [2.0**64, 1], [np.True_]):
        with pytest.raises(holdall.HoldallError):
            echo(u=wrong)
    deep = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(holdall.UsageError):
        echo(f=deep)
    # Arrays in a list are the tensors of a nested one.
    assert [part.tolist() for part in echo(f=[np.zeros(1, np.float32), np.ones(2, np.float32)])] == [[0], [1, 1]]
