"""Models of the Hugging Face hub as GGUF files, by recipes."""

import io
import json
import pathlib
import shutil

import numpy as np
import pytest

import holdall
from holdall import recipes

CORPUS = pathlib.Path(__file__).parents[3] / "corpus/recipes"


def test_a_folder_becomes_gguf_and_a_folder_again(tmp_path):
    source = CORPUS / "mixtral"
    report = recipes.convert(source, tmp_path / "m.gguf", tokenizer=False)
    assert (report.recipe, report.outtype, report.tensors) == ("mixtral", "bf16", 23)
    assert holdall.open(tmp_path / "m.gguf").attributes["general.architecture"] == "llama"
    back = recipes.restore(tmp_path / "m.gguf", tmp_path / "back", config=source / "config.json")
    assert back.recipe == "mixtral"
    assert set(back.files) == {"config.json", "model.safetensors"}
    assert not holdall.diff(source, tmp_path / "back")
    out = io.BytesIO()
    recipes.convert(source, out, tokenizer=False, name="m", outtype="Q4_K_M")
    assert out.getvalue().startswith(b"GGUF")


def test_a_converted_model_is_compared_with_its_source(tmp_path):
    source, path = CORPUS / "qwen2", tmp_path / "m.gguf"
    recipes.convert(source, path, tokenizer=False, outtype="q8_0")
    diff = recipes.diff(source, path, tokenizer=False)
    diff.raise_if_bad()
    assert diff.is_same and not diff
    assert all(tensor.verdict == "exact" for tensor in diff.tensors)
    matrix = next(tensor for tensor in diff.tensors if tensor.name == "blk.0.attn_q.weight")
    assert matrix.stored == "q8_0" and 0 < matrix.error.relative < 0.01 and matrix.worst is not None

    raw = bytearray(path.read_bytes())
    raw[-40] ^= 64
    path.write_bytes(raw)
    diff = recipes.diff(source, path, tokenizer=False)
    (wrong,) = [tensor for tensor in diff.tensors if tensor.verdict == "differs"]
    assert diff and wrong.differing == 1
    with pytest.raises(holdall.IntegrityError, match=wrong.name.replace(".", r"\.")):
        diff.raise_if_bad()


def test_parts_metadata_and_vocabularies(tmp_path):
    source = CORPUS / "llama3-bpe"
    metadata = {"llama.context_length": 77, "general.tags": ["a", "b"], "own.count": ("u64", 5)}
    report = recipes.convert(source, tmp_path / "parts", tokenizer=False, name="m", metadata=metadata, max_shard_size="20kB")
    assert report.files == [f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    assert report.set_keys["llama.context_length"] == (128, 77) and report.set_keys["own.count"] == (None, 5)
    with holdall.open(tmp_path / "parts" / report.files[0]) as file:
        assert file.attributes["general.tags"] == ["a", "b"] and len(file) == 21
    with pytest.raises(holdall.UsageError, match="size of the tensors"):
        recipes.convert(source, tmp_path / "x.gguf", tokenizer=False, metadata={"llama.block_count": 3})

    folder = tmp_path / "vocabulary"
    folder.mkdir()
    shutil.copy(source / "config.json", folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(CORPUS.parent / "tokenizers/llama3-bpe" / name, folder)
    report = recipes.convert(folder, tmp_path / "v.gguf", vocabulary_only=True, pre_tokenizer="llama-bpe", limits={"header_len": 1 << 20})
    assert report.tensors == 0
    with holdall.open(tmp_path / "v.gguf") as file:
        assert len(file) == 0 and file.attributes["tokenizer.ggml.model"] == "gpt2"


def test_recipes_are_listed_and_replaced(tmp_path):
    names = [recipe.name for recipe in recipes.available()]
    assert "llama" in names and "qwen2" in names
    own = tmp_path / "own.toml"
    own.write_text(recipes.text("qwen2"))
    assert recipes.convert(CORPUS / "qwen2", tmp_path / "m.gguf", recipe=own, tokenizer=False).recipe == "qwen2"
    with pytest.raises(holdall.UsageError, match="no recipe is called"):
        recipes.text("quen2")
    with pytest.raises(holdall.UsageError, match="q4_k_m"):
        recipes.convert(CORPUS / "qwen2", tmp_path / "n.gguf", outtype="q9", tokenizer=False)


def test_a_model_without_a_recipe_is_refused(tmp_path):
    source = tmp_path / "model"
    shutil.copytree(CORPUS / "qwen2", source)
    config = json.loads((source / "config.json").read_text())
    config.update(architectures=["NoSuchForCausalLM"], model_type="no_such")
    (source / "config.json").write_text(json.dumps(config))
    with pytest.raises(holdall.UnsupportedError, match="NoSuch"):
        recipes.convert(source, tmp_path / "m.gguf", tokenizer=False)
    assert not (tmp_path / "m.gguf").exists()
    recipes.convert(source, tmp_path / "m.gguf", recipe="qwen2", tokenizer=False)
    assert np.isfinite(holdall.load(tmp_path / "m.gguf", ["token_embd.weight"], dtype="f32")["token_embd.weight"]).all()
