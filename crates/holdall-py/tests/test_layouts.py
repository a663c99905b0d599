"""Layouts that a description teaches."""

from pathlib import Path

import numpy as np
import pytest

import holdall

DESCRIPTION = """
[layouts.quantized_4bit]
shape = ["rows", "columns"]
index = ["row", "column"]
value = "(data[row, column] - zero_point[row]) * scale[row]"

[layouts.quantized_4bit.components]
data = { bits = 4, shape = ["rows", "columns"] }
scale = { read_as = "f32", shape = ["rows"] }
zero_point = { read_as = "f32", shape = ["rows"] }
"""

WANTED = np.array([[-0.5, 0.0, 0.5, 1.0], [8.0, 10.0, 12.0, 30.0]], np.float32)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    components = {
        "data": np.array([0x10, 0x32, 0x54, 0xF6], np.uint8),
        "scale": np.array([0.5, 2.0], np.float32),
        "zero_point": np.array([1.0, 0.0], np.float32),
    }
    with holdall.Writer(tmp_path / "w.zt") as writer:
        writer.add_components("w", (2, 4), "quantized_4bit", components)
    (tmp_path / "layouts.toml").write_text(DESCRIPTION)
    return tmp_path


def test_tensors_of_a_described_layout_have_values(made: Path) -> None:
    with holdall.open(made / "w.zt", layouts=made / "layouts.toml") as file:
        np.testing.assert_array_equal(file["w"].to_dense(), WANTED)
        np.testing.assert_array_equal(file["w"].dequantize(), WANTED)
        np.testing.assert_array_equal(file.load(dense=True)["w"], WANTED)
        assert file["w"].stats().max == 30.0
        report = file.verify()
        assert report and report.described == 1
        holdall.convert(file, made / "w.safetensors", dense=True)
    np.testing.assert_array_equal(holdall.load(made / "w.safetensors")["w"], WANTED)
    data = (made / "w.zt").read_bytes()
    file = holdall.open(data, layouts=[str(made / "layouts.toml")])
    np.testing.assert_array_equal(file["w"].to_dense(), WANTED)


def test_without_a_description_it_is_said_what_helps(made: Path) -> None:
    with holdall.open(made / "w.zt") as file:
        with pytest.raises(holdall.UnsupportedError, match="layouts=") as e:
            file["w"].to_dense()
        assert e.value.code == "file/unknown-layout"
        assert {"do": "describe_layout"} in e.value.remedies
        with pytest.raises(holdall.UsageError):
            file["w"].dequantize()


def test_what_is_wrong_with_a_description_is_told_by_line(made: Path) -> None:
    bad = made / "bad.toml"
    bad.write_text(DESCRIPTION.replace("bits = 4", "bits = 99"))
    with pytest.raises(holdall.MalformedError, match="line 8: `layouts.quantized_4bit.components.data.bits`") as e:
        holdall.open(made / "w.zt", layouts=bad)
    assert e.value.code == "layouts/description"
    assert e.value.source == str(bad)
