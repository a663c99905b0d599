"""accelerate, huggingface_hub, diffusers, peft and timm save and load through ours."""

import pytest
from conftest import published, raw

torch = pytest.importorskip("torch")

READ = """
import hashlib, sys, torch, safetensors, safetensors.torch
assert "holdall" not in safetensors.__file__
for name, x in sorted(safetensors.torch.load_file(sys.argv[1]).items()):
    print(name, hashlib.sha256(bytes(x.contiguous().reshape(-1).view(torch.uint8).numpy())).hexdigest())
"""


def small():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))


def equal(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_the_published_package_reads_what_is_saved(tmp_path):
    import safetensors.torch

    safetensors.torch.save_model(small(), tmp_path / "m.safetensors")
    import hashlib

    expected = [f"{k} {hashlib.sha256(d).hexdigest()}" for k, (_, _, d) in sorted(raw(tmp_path / "m.safetensors").items())]
    assert published(READ, tmp_path / "m.safetensors").split("\n")[:-1] == expected and expected


def test_huggingface_hub(tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    model = small()
    hub.save_torch_model(model, tmp_path, max_shard_size=400)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    other = small()
    with torch.no_grad():
        other[0].weight.zero_()
    hub.load_torch_model(other, tmp_path)
    assert equal(model, other)


def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    model = small()
    accelerate.Accelerator(cpu=True).save_model(model, tmp_path, max_shard_size=400)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    other = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
    accelerate.load_checkpoint_in_model(other, tmp_path)
    assert equal(model, other)
    with accelerate.init_empty_weights():
        empty = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
    with_tensor_name = accelerate.load_checkpoint_and_dispatch(empty, tmp_path, device_map={"": "cpu"})
    assert equal(model, with_tensor_name)


def test_diffusers(tmp_path):
    diffusers = pytest.importorskip("diffusers")
    model = diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8), norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    model.save_pretrained(tmp_path / "whole")
    assert equal(model, diffusers.UNet2DModel.from_pretrained(tmp_path / "whole"))
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    assert equal(model, diffusers.UNet2DModel.from_pretrained(tmp_path / "shards"))


def test_peft(tmp_path):
    peft = pytest.importorskip("peft")
    model = small()
    tuned = peft.get_peft_model(model, peft.LoraConfig(target_modules=["0", "2"], r=2, init_lora_weights=False))
    tuned.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(small(), tmp_path)
    assert equal(tuned, again)


def test_timm(tmp_path):
    timm = pytest.importorskip("timm")
    import safetensors.torch

    model = timm.create_model("resnet10t", pretrained=False, num_classes=3)
    safetensors.torch.save_file(model.state_dict(), tmp_path / "model.safetensors")
    again = timm.create_model("resnet10t", checkpoint_path=str(tmp_path / "model.safetensors"), num_classes=3)
    assert equal(model, again)
