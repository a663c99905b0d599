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


def test_an_adapter_changes_the_converted_model(tmp_path):
    base, folder = CORPUS / "llama3-bpe", tmp_path / "adapter"
    folder.mkdir()
    module = "model.layers.0.self_attn.q_proj"
    random = np.random.default_rng(5)
    a, b = random.standard_normal((4, 32), np.float32), random.standard_normal((32, 4), np.float32)
    factors = {f"base_model.model.{module}.lora_A.weight": a, f"base_model.model.{module}.lora_B.weight": b}
    holdall.save(folder / "adapter_model.safetensors", factors)
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    report = recipes.convert_adapter(folder, tmp_path / "lora.gguf", base=base)
    assert (report.recipe, report.outtype, report.tensors) == ("llama", "f32", 2)

    merged = tmp_path / "merged"
    merged.mkdir()
    shutil.copy(base / "config.json", merged)
    tensors = {name: np.asarray(value, np.float32) for name, value in holdall.load(base).items()}
    recipes.convert(base, tmp_path / "base.gguf", outtype="f32", tokenizer=False)
    tensors[f"{module}.weight"] = tensors[f"{module}.weight"] + 2 * b @ a
    holdall.save(merged / "model.safetensors", tensors)
    recipes.convert(merged, tmp_path / "merged.gguf", outtype="f32", tokenizer=False)
    name = "blk.0.attn_q.weight"
    own, expected = (holdall.load(tmp_path / f"{file}.gguf")[name] for file in ("base", "merged"))
    lora = holdall.load(tmp_path / "lora.gguf")
    assert np.abs(own + 2 * lora[f"{name}.lora_b"] @ lora[f"{name}.lora_a"] - expected).max() < 1e-4

    recipes.restore(tmp_path / "lora.gguf", tmp_path / "back", config=base / "config.json")
    back = holdall.load(tmp_path / "back/adapter_model.safetensors")
    assert all((back[name] == value).all() for name, value in factors.items())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "use_dora": True}))
    with pytest.raises(holdall.UnsupportedError, match="DoRA"):
        recipes.convert_adapter(folder, tmp_path / "dora.gguf", base=base)


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
