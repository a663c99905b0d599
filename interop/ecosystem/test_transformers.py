"""A real model by transformers: loaded, saved, saved in shards, bit for bit."""

import json

import pytest
from conftest import published, raw

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SAVE = """
import sys, transformers
model = transformers.AutoModel.from_pretrained(sys.argv[1], dtype="auto")
model.save_pretrained(sys.argv[2], max_shard_size=sys.argv[3])
import safetensors
assert "holdall" not in safetensors.__file__
"""


def bits(x):
    return bytes(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def same(model, files):
    """That a model has the tensors of these files, bit for bit."""
    state = model.state_dict()
    seen = 0
    for name, (_, shape, data) in files.items():
        name = name if name in state else name.partition(".")[2]
        if name in state:
            seen += 1
            assert list(state[name].shape) == shape and bits(state[name]) == data, name
    assert seen == len(state)


def test_it_is_ours():
    import safetensors
    import safetensors.torch

    assert "holdall" in safetensors.__file__ and "holdall" in safetensors.torch.__file__
    assert transformers.modeling_utils.safe_open is safetensors.safe_open
    assert transformers.modeling_utils.safe_open.__module__.startswith("holdall.")


def test_a_real_model_is_loaded(minilm):
    model = transformers.AutoModel.from_pretrained(minilm)
    same(model, raw(minilm / "model.safetensors"))
    ids = torch.tensor([[101, 7592, 2088, 102]])
    with torch.no_grad():
        out = model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert out.shape[:2] == (1, 4) and bool(torch.isfinite(out).all())


@pytest.mark.parametrize("size", ["5GB", "20MB"])
def test_what_is_saved_is_what_the_published_package_saves(minilm, tmp_path, size):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    model = transformers.AutoModel.from_pretrained(minilm, dtype="auto")
    model.save_pretrained(ours, max_shard_size=size)
    published(SAVE, minilm, theirs, size)
    files = sorted(p.name for p in theirs.glob("*.safetensors*"))
    assert files == sorted(p.name for p in ours.glob("*.safetensors*"))
    assert (len(files) > 3) == (size == "20MB")
    for name in files:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    for folder in (ours, theirs):
        again = transformers.AutoModel.from_pretrained(folder)
        same(again, {k: v for p in folder.glob("*.safetensors") for k, v in raw(p).items()})


def test_tied_weights_are_saved_once(tmp_path):
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=100, n_positions=32)
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(tmp_path)
    assert "lm_head.weight" not in raw(tmp_path / "model.safetensors")
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)
    assert again.lm_head.weight.data_ptr() == again.transformer.wte.weight.data_ptr()
    assert torch.equal(again.lm_head.weight, model.lm_head.weight)


def test_a_half_of_the_bits(tmp_path):
    config = transformers.BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    model = transformers.BertModel(config).to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    same(transformers.BertModel.from_pretrained(tmp_path, dtype="auto"), raw(tmp_path / "model.safetensors"))


def test_a_bad_file_is_told(minilm, tmp_path):
    (tmp_path / "config.json").write_bytes((minilm / "config.json").read_bytes())
    data = (minilm / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(data[:-100])
    from safetensors import SafetensorError

    with pytest.raises(SafetensorError, match="incomplete metadata, file not fully covered"):
        transformers.AutoModel.from_pretrained(tmp_path)


def test_a_missing_shard_is_told(minilm, tmp_path):
    model = transformers.AutoModel.from_pretrained(minilm)
    model.save_pretrained(tmp_path, max_shard_size="20MB")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    (tmp_path / sorted(set(index["weight_map"].values()))[-1]).unlink()
    with pytest.raises(OSError):
        transformers.AutoModel.from_pretrained(tmp_path)
