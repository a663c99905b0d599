"""Models of the Hugging Face hub as GGUF files that llama.cpp runs, and back.

A recipe describes how the tensors and the configuration of a family of models become those of a GGUF file. It is found
by the architecture in ``config.json``::

    import holdall.recipes

    holdall.recipes.convert("Llama-3.2-1B", "llama.gguf", outtype="q4_k_m")
    holdall.recipes.diff("Llama-3.2-1B", "llama.gguf").raise_if_bad()
    holdall.recipes.restore("llama.gguf", "back")
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from . import _holdall
from ._file import File, Source
from ._limits import Limits
from ._operations import _opened
from ._progress import Progress, listening
from ._reports import ConvertReport, JsonObject, _sides, made
from ._write import Target, _writing
from .errors import FormatWarning, HoldallError, IntegrityError, UsageError

__all__ = [
    "ConvertedTensor",
    "Deviation",
    "ModelConvertReport",
    "ModelDiff",
    "Recipe",
    "WorstBlock",
    "available",
    "convert",
    "convert_adapter",
    "diff",
    "restore",
    "text",
]

#: A folder with ``config.json``, tensors and the files of the tokenizer.
Folder = str | os.PathLike[str]


def __dir__() -> list[str]:
    return sorted(__all__)


class Recipe(NamedTuple):
    """A recipe that is part of Holdall."""

    name: str
    #: The models that it is for.
    about: str
    #: The ``architectures`` of ``config.json``.
    architectures: list[str]


@dataclass(frozen=True)
class ModelConvertReport(ConvertReport):
    """The result of a conversion by a recipe."""

    #: The name of the recipe.
    recipe: str
    #: The type of the matrices; never ``"auto"``.
    outtype: str
    #: Keys of the metadata that the caller set, with the values that the recipe would have written (``None`` if none).
    set_keys: dict[str, tuple[Any, Any]]


class Deviation(NamedTuple):
    """The differences between the values of a tensor and those of its source."""

    #: The largest difference.
    max: float
    #: The root of the mean square of the differences.
    rms: float
    #: ``rms`` divided by the root mean square of the source's values.
    relative: float
    #: The cosine of the angle between both tensors as vectors.
    cosine: float


@dataclass(frozen=True)
class WorstBlock:
    """The block of a quantized tensor with the largest relative error."""

    index: int
    #: The first of its elements in row-major order, and the one after the last.
    elements: tuple[int, int]
    relative: float


@dataclass(frozen=True)
class ConvertedTensor:
    """A tensor of a converted model, compared with the values of its source."""

    name: str
    shape: tuple[int, ...]
    #: The type of its elements or blocks, such as ``"bf16"`` or ``"q8_0"``.
    stored: str
    #: The shape that the recipe writes, if it is another one; otherwise ``None``.
    expected_shape: tuple[int, ...] | None
    #: ``"exact"``: the bytes that the recipe writes; ``"rounded"``: an exponential differs in the last place;
    #: ``"quantized"``: other blocks, all as near to the source as their type allows; ``"differs"``.
    verdict: Literal["exact", "rounded", "quantized", "differs"]
    count: int
    #: The number of elements or blocks with other bytes; ``None`` for types that Holdall does not quantize as other
    #: programs do.
    differing: int | None
    #: The elements of the first one.
    first: tuple[int, int] | None
    error: Deviation
    worst: WorstBlock | None

    @classmethod
    def _of(cls, tensor: JsonObject) -> ConvertedTensor:
        def pair(value: Any) -> tuple[int, ...] | None:
            return None if value is None else tuple(value)

        worst = tensor["worst"]
        if worst is not None:
            worst = WorstBlock(**{**worst, "elements": tuple(worst["elements"])})
        return made(
            cls,
            tensor,
            shape=tuple(tensor["shape"]),
            expected_shape=pair(tensor["expected_shape"]),
            first=pair(tensor["first"]),
            error=Deviation(**tensor["error"]),
            worst=worst,
        )


@dataclass(frozen=True)
class ModelDiff:
    """A converted model compared with its source. True if it is not what the recipe makes of the source."""

    recipe: str
    #: Whether nothing but the precision was lost.
    is_same: bool
    #: The tensors that the recipe writes and the converted model has.
    tensors: list[ConvertedTensor]
    #: The names of the tensors that the converted model lacks, and of those that only it has.
    missing: list[str]
    added: list[str]
    #: Keys of the metadata with another value: the one that the recipe writes, and the one of the file.
    attributes: dict[str, tuple[Any, Any]]
    #: Keys of the metadata that only the converted model has.
    added_attributes: list[str]
    warnings: list[FormatWarning]

    @classmethod
    def _of(cls, report: JsonObject) -> ModelDiff:
        return made(
            cls,
            report,
            is_same=report["same"],
            tensors=[ConvertedTensor._of(tensor) for tensor in report["tensors"]],
            attributes=_sides(report["attributes"]),
            warnings=[FormatWarning(**warning) for warning in report["warnings"]],
        )

    def __bool__(self) -> bool:
        return not self.is_same

    def raise_if_bad(self) -> None:
        """Raises an :class:`IntegrityError` that names the differences, if there are any."""
        if self.is_same:
            return
        wrong = [tensor.name for tensor in self.tensors if tensor.verdict == "differs"]
        parts = [("tensors with other values", wrong), ("missing", self.missing), ("added", self.added), ("metadata", list(self.attributes))]
        found = "; ".join(f"{what}: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}" for what, names in parts if names)
        raise IntegrityError(f"the model is not what recipe {self.recipe} makes of its source: {found}", code="recipe/other-model", kind="integrity")


def available() -> list[Recipe]:
    """Returns the recipes that are part of Holdall, apart from those that are only extended by others."""
    all = [Recipe(*_holdall.recipe_described(text.encode())) for _, text in _holdall.recipe_texts()]
    return [recipe for recipe in all if recipe.architectures]


def text(name: str) -> str:
    """Returns the text of a recipe that is part of Holdall: a start for another one.

    Raises:
        UsageError: there is no recipe with this name.
    """
    texts: dict[str, str] = dict(_holdall.recipe_texts())
    if name not in texts:
        hint = "holdall.recipes.available() lists them; a file is named with its extension"
        raise UsageError(f"no recipe is called {name!r}", code="python/option", kind="misuse", hint=hint)
    return texts[name]


def _by(
    outtype: str,
    recipe: None | Folder,
    name: str | None,
    pre_tokenizer: str | None,
    tokenizer: bool,
    metadata: Mapping[str, Any] | None = None,
    max_shard_size: None | int | str = None,
    max_shard_tensors: int | None = None,
) -> dict[str, Any]:
    given = None
    if recipe is not None:
        path = Path(recipe)
        given = (str(recipe), path.read_bytes() if path.suffix else text(str(recipe)).encode())
    settings = []
    for key, value in (metadata or {}).items():
        kind = None
        if isinstance(value, tuple):
            kind, value = value
        settings.append((key, value, kind))
    return {
        "outtype": outtype,
        "recipe": given,
        "name": name,
        "pre_tokenizer": pre_tokenizer,
        "tokenizer": bool(tokenizer),
        "metadata": settings,
        "max_shard_size": max_shard_size,
        "max_shard_tensors": max_shard_tensors,
    }


def _report(report: JsonObject) -> ModelConvertReport:
    plain = ConvertReport._of(report)
    set_keys = {key["key"]: (key["old"], key["value"]) for key in report["set_keys"]}
    return ModelConvertReport(**vars(plain), recipe=report["recipe"], outtype=report["outtype"], set_keys=set_keys)


def convert(
    folder: Folder,
    target: Target,
    *,
    outtype: str = "auto",
    recipe: None | Folder = None,
    name: str | None = None,
    pre_tokenizer: str | None = None,
    tokenizer: bool = True,
    vocabulary_only: bool = False,
    metadata: Mapping[str, Any] | None = None,
    max_shard_size: None | int | str = None,
    max_shard_tensors: int | None = None,
    limits: Limits | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> ModelConvertReport:
    """Writes the model in a folder of the Hugging Face hub as a GGUF file, with the names, shapes, metadata and tokenizer
    that llama.cpp expects.

    Args:
        folder: A folder with ``config.json``, tensors and the files of the tokenizer.
        target: A path, or an object with ``write``.
        outtype: The type of the matrices: ``"f32"``, ``"f16"``, ``"bf16"``, ``"q8_0"``, a mix such as ``"q4_k_m"``, or
            ``"auto"``: F16 or BF16, as in the folder (and MXFP4 for the experts of gpt-oss). Vectors stay F32.
        recipe: The name of a recipe or the path of a TOML file; by default the one for the architecture in ``config.json``.
        name: The name of the model in the file; by default that of the folder.
        pre_tokenizer: The name of the pre-tokenizer, such as ``"llama-bpe"``, in place of the one that its rules have.
        tokenizer: Whether the tokenizer is written.
        vocabulary_only: Writes the metadata and the tokenizer without tensors, which the folder need not have.
        metadata: Keys of the metadata to set, in place of the values of the recipe or next to them. A value has the type of
            its key; ``("u64", 5)`` is a value with a type of GGUF. Keys that follow from the tensors cannot be set.
        max_shard_size: Makes ``target`` a folder of files with at most this many bytes of tensors each (``"5GB"``, a number):
            the parts of a split GGUF file, ``NAME-00001-of-00003.gguf``.
        max_shard_tensors: The same with at most this many tensors in each file.

    Raises:
        UnsupportedError: no recipe is known for the architecture, or the recipe has no rule for a tensor; nothing is written.
        TargetExistsError: the target exists and ``overwrite`` is false.
    """
    writing = _writing(None, None, None, None, None, None, None, overwrite, sync, threads)
    by = _by(outtype, recipe, name, pre_tokenizer, tokenizer, metadata, max_shard_size, max_shard_tensors)
    if vocabulary_only:
        return _report(_holdall.model_vocabulary(Path(folder), None if limits is None else dict(limits), target, writing, by))
    with ExitStack() as stack:
        file = stack.enter_context(_opened(folder, limits))
        listener = stack.enter_context(listening(progress))
        return _report(_holdall.model_convert(Path(folder), file._native, target, writing, by, listener))


def convert_adapter(
    folder: Folder,
    target: Target,
    *,
    base: Folder,
    outtype: Literal["auto", "f32", "f16", "bf16", "q8_0"] = "auto",
    recipe: None | Folder = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> ModelConvertReport:
    """Writes an adapter of LoRA, a folder of PEFT, as a GGUF file that llama.cpp applies to its converted base model. What the
    recipe does with a matrix, it does with its factors.

    Args:
        folder: A folder with ``adapter_config.json`` and ``adapter_model.safetensors`` (or ``.bin``).
        base: The folder of the base model, of which ``config.json`` is needed. If it has tensors, the shapes are compared.
        outtype: The type of the factors; by default that of the folder.
        recipe, name, metadata: As for :func:`convert`.

    Raises:
        UnsupportedError: the adapter is of another kind, or changes what the recipe cannot move as rows and columns; nothing
            is written.
    """
    writing = _writing(None, None, None, None, None, None, None, overwrite, sync, threads)
    by = _by(outtype, recipe, name, None, False, metadata)
    with ExitStack() as stack:
        file = stack.enter_context(_opened(folder, limits))
        try:
            model = stack.enter_context(_opened(base, limits))._native
        except HoldallError as e:
            if e.code != "shards/no-model":
                raise
            model = None
        listener = stack.enter_context(listening(progress))
        return _report(_holdall.adapter_convert(Path(folder), file._native, Path(base), model, target, writing, by, listener))


def restore(
    source: Source | File,
    folder: Folder,
    *,
    recipe: None | Folder = None,
    outtype: Literal["auto", "f32", "f16", "bf16"] = "auto",
    config: None | Folder = None,
    limits: Limits | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> ModelConvertReport:
    """Writes the model of a GGUF file as a folder of the Hugging Face hub: ``model.safetensors``, ``config.json`` and the
    files of the tokenizer. An adapter becomes a folder of PEFT; for it, ``config`` is that of the base model.

    Args:
        recipe: The name of a recipe or the path of a TOML file; by default the first one for the architecture of the file
            that has a rule for every tensor.
        outtype: The type of all tensors; by default that of the matrices, or F32 for quantized ones.
        config: The path of the model's ``config.json``; by default one is made of the metadata.

    Raises:
        UnsupportedError: the recipe cannot be followed backwards, or does not write a tensor of the file.
    """
    writing = _writing(None, None, None, None, None, None, None, overwrite, sync, threads)
    by = _by(outtype, recipe, None, None, True)
    given = None if config is None else Path(config).read_text(encoding="utf-8")
    with ExitStack() as stack:
        file = stack.enter_context(_opened(source, limits))
        listener = stack.enter_context(listening(progress))
        return _report(_holdall.model_restore(file._native, Path(folder), given, writing, by, listener))


def diff(
    folder: Folder,
    converted: Source | File,
    *,
    recipe: None | Folder = None,
    pre_tokenizer: str | None = None,
    tokenizer: bool = True,
    limits: Limits | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> ModelDiff:
    """Compares a converted model with the folder that it was made from, whichever program wrote it: each tensor with what
    the recipe makes of the folder, in the type that the converted model has, and the metadata.

    Args:
        folder, recipe, pre_tokenizer, tokenizer: As for :func:`convert`.
        converted: A source for :func:`holdall.open`, or an open file.
    """
    by = _by("auto", recipe, None, pre_tokenizer, tokenizer)
    with ExitStack() as stack:
        file = stack.enter_context(_opened(folder, limits))
        other = stack.enter_context(_opened(converted, None if isinstance(converted, File) else limits))
        listener = stack.enter_context(listening(progress))
        return ModelDiff._of(_holdall.model_diff(Path(folder), file._native, other._native, by, threads, listener))
