"""The description of a new package: properties that no package can have are refused by name."""

import numpy as np
import pytest

import holdall
from holdall import carton


@pytest.fixture
def pack(tmp_path):
    (tmp_path / "m/model").mkdir(parents=True)
    (tmp_path / "m/model/w").write_bytes(bytes(100))

    def pack(**arguments):
        return carton.pack(tmp_path / "m", **{"runner": "noop", "framework_version": "1", "overwrite": True, **arguments})

    return pack


@pytest.fixture
def declared(pack):
    def declared(*spec):
        with carton.open(pack(inputs=[spec]).path) as p:
            return p.inputs[0]

    return declared


def refused(call, error, *parts):
    with pytest.raises(error) as info:
        call()
    assert type(info.value) is error
    assert all(part in str(info.value) for part in parts), info.value
    return info.value


def test_shapes(declared):
    for shape, found in {
        None: "*",
        "*": "*",
        (None, 3, "*", "n"): ("*", 3, "*", "n"),
        (np.int64(3), 0): (3, 0),
        (2**63 - 1,): (2**63 - 1,),
        (): (),
    }.items():
        assert declared("x", "float32", shape).shape == found
    assert declared("x", "float32").shape == "*"
    assert declared("x", "float32", ["n", 2]).shape == ("n", 2)
    for size in (-1, 2**63, 2**64, 2**70):
        e = refused(lambda: declared("x", "float32", (2, size)), holdall.UsageError, "dimension 1 of input 0 'x'", str(size))
        assert e.code == "python/shape"
    for symbol in ("", "a b", " a", "a\n", "\0"):
        refused(lambda: declared("x", "float32", (symbol,)), holdall.UsageError, "dimension 0 of input 0 'x'")
        refused(lambda: declared("x", "float32", symbol), holdall.UsageError, "the shape of input 0 'x'")
    for size in (True, 1.0, b"n", (1,)):
        refused(lambda: declared("x", "float32", (size,)), TypeError, "dimension 0 of input 0 'x'", repr(size))
    refused(lambda: declared("x", "float32", 3), TypeError, "input 0 'x'", "(3,), with a comma")
    for shape in ({"a"}, {}, b"n", 1.5):
        refused(lambda: declared("x", "float32", shape), TypeError, "the shape of input 0 'x'")


def test_a_symbol_for_a_whole_shape_that_nothing_shares_is_told_of(pack):
    (warning,) = pack(inputs=[("x", "float32", ("batch"))], outputs=[("y", "float32", ("batch",))]).warnings
    assert (warning.code, warning.tensor) == ("python/symbol", "x") and "('batch',), with a comma" in warning.message
    assert not pack(inputs=[("x", "float32", "s")], outputs=[("y", "float32", "s"), ("z", "int8", "*")]).warnings


def test_element_types(declared):
    for dtype in (np.float32, np.dtype("f4"), np.dtype(">f4"), "float32"):
        assert declared("x", dtype, ()).dtype == "float32"
    for dtype in ("string", str, np.str_, np.dtype("U3")):
        assert declared("x", dtype, ()).dtype == "string"
    for dtype in (np.float16, "float16", "f4", np.bool_, np.dtype([("a", "f4")]), np.dtype("O"), "\ud800"):
        e = refused(lambda: declared("x", dtype, ()), holdall.UsageError, "input 0 'x'", "float32")
        assert e.code == "python/dtype"
    for dtype in (None, 3, float, object):
        refused(lambda: declared("x", dtype, ()), TypeError, "dtype of input 0 'x'", repr(dtype))


def test_names_and_specs(declared, pack):
    refused(lambda: declared("", "float32", ()), holdall.UsageError, "the name of input 0 is empty")
    refused(lambda: declared(3, "float32", ()), TypeError, "the name of input 0")
    refused(lambda: declared("x", "float32", (), 3), TypeError, "the description of input 0 'x'")
    for wrong in ("x", [3], ["xy"], [("x",)], [("x", "int8", (), None, None, 1)], {"x": "int8"}, 3, carton.Spec("x", "int8")):
        refused(lambda: pack(outputs=wrong), TypeError, "output")
    refused(lambda: pack(inputs=[{"name": "x", "type": "int8"}]), TypeError, "input 0 has the fields name, dtype")
    with carton.open(pack(inputs=[{"name": "x", "dtype": "int8", "shape": ("n",)}]).path) as p:
        assert p.inputs == (carton.Spec("x", "int8", ("n",)),)


def test_texts_and_options(pack):
    for what in ("name", "short_description", "description", "license", "runner", "framework_version"):
        refused(lambda: pack(**{what: "a\ud800"}), UnicodeEncodeError, f"{what} is not Unicode")
        refused(lambda: pack(**{what: 3}), TypeError, f"{what} must be a string, not int")
    refused(lambda: pack(platforms=[3]), TypeError, "platforms")
    for value in (2**70, 2**63, -(2**63) - 1):
        e = refused(lambda: pack(options={"b": value}), holdall.UsageError, "the option 'b'")
        assert e.code == "python/option"
        refused(lambda: carton.load(pack().path, options={"b": value}), holdall.UsageError, "the option 'b'")
    with carton.open(pack(options={"b": 2**63 - 1, "c": -(2**63), "d": True}).path) as p:
        assert p.runner.options == {"b": 2**63 - 1, "c": -(2**63), "d": True}
    for wrong in (3, "b", [("b", 1)], {3: 1}):
        refused(lambda: pack(options=wrong), TypeError, "option")


def test_self_tests(pack):
    def of(**arguments):
        return pack(self_tests=[{"inputs": {"x": np.zeros(2)}}, {"inputs": {"x": np.zeros(2)}, **arguments}])

    for wrong in ("a", None, [1], True):
        refused(lambda: of(rtol=wrong), TypeError, "rtol of self-test 1 must be a number")
        refused(lambda: carton.test(of().path, atol=wrong if wrong is not None else "x"), TypeError, "atol must be a number")
    for wrong in (-1, float("nan")):
        refused(lambda: of(atol=wrong), holdall.UsageError, "atol of self-test 1")
    refused(lambda: of(name=3), TypeError, "name of self-test 1")
    assert carton.test(of(rtol=np.float32(0.5), atol=0).path)


def test_links_and_sizes(pack, tmp_path):
    def shrink(**arguments):
        return carton.shrink(pack().path, tmp_path / "s.carton", overwrite=True, **arguments)

    url = "https://example.com/w"
    for wrong in ("model/w", ["model/w"], [("model/w", url)], 3):
        refused(lambda: shrink(links=wrong), TypeError, "links must be a mapping")
    for wrong in (3, [3], b"x", {"x": url}, None):
        refused(lambda: shrink(links={"model/w": wrong}), TypeError, "links['model/w']")
    refused(lambda: shrink(links={3: url}), TypeError, "a path in links")
    for wrong in (-1, 2**64, 2**70):
        refused(lambda: shrink(base_url=url, at_least=wrong), holdall.UsageError, "at_least", str(wrong))
    for wrong in ("a", 1.5, True, None):
        refused(lambda: shrink(base_url=url, at_least=wrong), TypeError, "at_least")
    refused(lambda: shrink(base_url=3), TypeError, "base_url")
    assert shrink(links={"model/w": [url, url + "2"]}).linked == 1
