"""The model folder: config.json, model.safetensors and tokenizer.json, in Hugging Face's format where it has one.

Models that Hugging Face cannot express (a recurrent network, a BERT with rotary positions) use the same files, with
`model_type = "qkv-<family>"`, our config under `"qkv"` and our own tensor names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from qkv.checkpoints import preprocessor, quantised
from qkv.checkpoints.hf import generation
from qkv.checkpoints.hf.generation import GenerationDefaults
from qkv.checkpoints.hf.rules import Unwritable, export_tensors, import_tensors
from qkv.checkpoints.hf.table import FORMATS
from qkv.checkpoints.limits import check_limits
from qkv.checkpoints.sentence import SentenceModel, check_widths, read_sentence, sentence_files
from qkv.checkpoints.text_tasks import TextTask, read_text_tasks, text_tasks_json
from qkv.checkpoints.update import EXPORT, check_digests, finish_update, update_folder, with_digests
from qkv.checkpoints.weights import WHOLE, json_bytes, read_json, read_weights, weight_bytes
from qkv.common import disk
from qkv.common.config import from_dict, override, to_dict
from qkv.common.errors import QkvError, UsageError, unknown
from qkv.common.pixels import ImageProcessor
from qkv.models.catalogue import FAMILIES, build, family_of, reads_images
from qkv.models.skeleton import Headed
from qkv.nn.init import without_weights
from qkv.tokenizers.text import TextTokenizer

OURS = "qkv-"
DTYPES = ("float32", "float16", "bfloat16")  # of weights in memory
INT8 = "int8"
STORED = (*DTYPES, INT8)  # of weights on disk
RENAMED = {"reach": "conv_width"}  # old to new names of keys in our own configs
MULTI_LABEL = "multi_label_classification"  # transformers' problem_type


@dataclass(frozen=True)
class Folder:
    """The contents of a model folder.

    Attributes:
        config: the family's config.
        model: the model with its weights, in `eval()`.
        tokenizer: the tokenizer, or None for models without text.
        labels: the class names in order, if the folder has them.
        sentence: how a text becomes one vector.
        multi_label: whether an example can have any number of labels instead of exactly one.
        threshold: the minimum probability of a predicted label in a multi-label model.
        no_answer: whether a question answering model may predict "no answer"; None if the folder does not say.
        no_answer_threshold: the margin by which "no answer" must outscore the best span to be predicted.
        text_tasks: the text-to-text tasks of the model by name, with their prefixes.
        stored_as: the `model_type` of the folder it was read from; empty if it was not.
        stored_dtype: the dtype of the weights in that folder, one of `STORED`; what is made from it is stored likewise.
        generation: how the model generates text by default; None if the folder does not say.
        prefix: what is put before each prompt, such as the name of a task of T5.
        suffix: what is put after each prompt, as in training.
        processor: how images become numbers; None if the folder does not say.
        exported: the format that the model was exported to, which cannot be changed or saved; empty if it was not.
    """

    config: Any
    model: Headed
    tokenizer: TextTokenizer | None = None
    labels: tuple[str, ...] = ()
    sentence: SentenceModel = field(default_factory=SentenceModel)
    multi_label: bool = False
    threshold: float = 0.5
    no_answer: bool | None = None
    no_answer_threshold: float = 0.0
    text_tasks: Mapping[str, TextTask] = field(default_factory=dict)
    stored_as: str = ""
    stored_dtype: str = "float32"
    generation: GenerationDefaults | None = None
    prefix: str = ""
    suffix: str = ""
    processor: ImageProcessor | None = None
    exported: str = ""

    @property
    def int8(self) -> bool:
        """Whether the weights were stored in int8; products may then be computed in int8 too."""
        return self.stored_dtype == INT8


def read_folder(path: str | Path, *, dtype: torch.dtype = torch.float32, verify: bool = True) -> Folder:
    """Load a model folder, ours or Hugging Face's. With `verify`, every file must match its stored digest."""
    folder = opened(path, verify=verify)
    if (folder / EXPORT).is_file():
        raise UsageError(f"{folder} is an export and has no weights to work with: use the folder it was made from")
    raw = read_json(folder / "config.json")
    tensors = read_weights(folder)
    stored = INT8 if raw.get("dtype") == INT8 else _dtype_of(tensors)
    if stored == INT8:
        tensors = _named(folder, lambda: quantised.restore(tensors))
    with _invalid(folder):
        config = override(read_config(raw, tensors), {})  # apply the same checks as to our own configs
        check_limits(config, tensors)
        with without_weights():
            model = build(config)
        found = _settings(folder, raw, config, model)
    kind = str(raw["model_type"])
    if not kind.startswith(OURS):
        tensors = _named(folder, lambda: import_tensors(tensors, FORMATS[family_of(config)], config))
    _fill(model, tensors, dtype, folder)
    return dataclasses.replace(_with_files(folder, raw, found), stored_as=kind, stored_dtype=stored)


def _dtype_of(tensors: Mapping[str, Tensor]) -> str:
    """Return the dtype that all weights have, or float32 if there are several or it is another one."""
    found = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values() if tensor.is_floating_point()}
    return found.pop() if len(found) == 1 and found <= set(DTYPES) else "float32"


def opened(path: str | Path, *, verify: bool) -> Path:
    """Return a model folder to read from, once interrupted writes are finished and, with `verify`, digests checked."""
    folder = Path(path)
    disk.recover(folder.absolute())
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    finish_update(folder)
    if verify:
        check_digests(folder)
    return folder


def read_around(folder: Path, config: Any, model: Headed) -> Folder:
    """Load what a folder holds besides the weights of a model that is there already."""
    raw = read_json(folder / "config.json")
    with _invalid(folder):
        found = _settings(folder, raw, config, model)
    return _with_files(folder, raw, found)


def _settings(folder: Path, raw: Mapping[str, Any], config: Any, model: Headed) -> Folder:
    """Read what config.json and the files of sentence-transformers say."""
    labels, threshold, no_answer = _labels(raw), _threshold(raw), _no_answer(raw)
    text_tasks, sentence = read_text_tasks(raw), read_sentence(folder)
    check_widths(sentence, getattr(config, "dim", 0))
    processor = preprocessor.read_processor(folder, config.channels) if reads_images(config) else None
    multi_label = raw.get("problem_type") == MULTI_LABEL
    told = (labels, sentence, multi_label, threshold, *no_answer, text_tasks)
    return Folder(config, model.eval(), None, *told, processor=processor)


def _with_files(folder: Path, raw: Mapping[str, Any], found: Folder) -> Folder:
    """Add what has a file of its own, and how the model generates."""
    return dataclasses.replace(
        found,
        tokenizer=TextTokenizer.find(folder),
        generation=_generation(folder),
        prefix=_prefix(raw),
        suffix=_text(raw, "suffix"),
    )


@contextlib.contextmanager
def _invalid(folder: Path) -> Iterator[None]:
    """Turn what a bad config.json causes into one sentence."""
    try:
        yield
    except KeyError as error:
        raise QkvError(f"{folder / 'config.json'} lacks the key {error}") from None
    except (TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, IndexError, QkvError) as error:
        raise QkvError(_cannot_be(folder, error)) from None


def read_config(raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    """Turn a config.json into a family's config."""
    kind = raw.get("model_type")
    if isinstance(kind, str) and kind.startswith(OURS):
        family = kind.removeprefix(OURS)
        if family not in FAMILIES:
            raise unknown("family", family, FAMILIES)
        return from_dict(FAMILIES[family].config, {RENAMED.get(key, key): value for key, value in raw["qkv"].items()})
    for style in FORMATS.values():
        if kind in style.model_types:
            return style.read(raw, tensors)
    raise unknown("model_type", kind, model_types())


def is_image_config(raw: Mapping[str, Any]) -> bool:
    """Whether a config.json belongs to a model of images."""
    inner = raw.get("qkv")
    return "image_size" in (inner if isinstance(inner, Mapping) else raw)


def model_types() -> list[str]:
    """List the values of `model_type` in config.json that can be read: Hugging Face's, then our own."""
    theirs = [name for style in FORMATS.values() for name in style.model_types]
    return [*theirs, *(OURS + family for family in FAMILIES)]


def write_folder(
    folder: Folder, path: str | Path, *, mode: Literal["replace", "update"] = "replace", dtype: str = "float32"
) -> None:
    """Write a model folder, including the digests of its files.

    Args:
        folder: the model to write.
        path: the target folder; symbolic links are followed.
        mode: "replace" removes everything else in the folder. "update" writes the model's files, removes those of the
            previous model and keeps all other files. In both modes, if the process is killed, `read_folder` finds
            either the old model or the new one, never a mix.
        dtype: the dtype of the stored weights, one of `STORED`.
    """
    target = Path(path).resolve()
    disk.recover(target)
    check_target(target)
    files = folder_files(folder, dtype=dtype)
    with disk.no_space(str(target)):
        if mode == "update" and target.exists():
            update_folder(target, files)
        else:
            disk.replace_folder(target, with_digests(files), manifest=False)


def check_target(target: Path) -> None:
    """Raise an error for a path that holds something, unless it is a model folder, a run folder or an empty folder."""
    known = any((target / name).is_file() for name in ("config.json", "recipe.toml", "shrink.toml"))
    if target.exists() and not (target.is_dir() and (known or not any(target.iterdir()))):
        raise UsageError(f"{target} exists and is not a model folder: choose another path")


def folder_files(folder: Folder, *, dtype: str = "float32") -> dict[str, bytes]:
    """Return the files of a model folder by name. `dtype` is the dtype of the weights, one of `STORED`."""
    if dtype not in STORED:
        raise unknown("dtype", dtype, STORED)
    if folder.exported:
        raise UsageError(f"an export to {folder.exported} has no weights to write: use the folder it was made from")
    tokenizer, config = folder.tokenizer, _with_ids(folder.config, folder.tokenizer)
    raw = config_json(config, folder.labels, multi_label=folder.multi_label, int8=dtype == INT8) | {"dtype": dtype}
    if folder.multi_label:
        raw["threshold"] = folder.threshold
    if folder.no_answer is not None:
        raw["no_answer"] = folder.no_answer
    if folder.no_answer:
        raw["no_answer_threshold"] = folder.no_answer_threshold
    raw |= text_tasks_json(folder.text_tasks)
    raw |= {key: text for key, text in (("prefix", folder.prefix), ("suffix", folder.suffix)) if text}
    ours = {name: tensor.float() for name, tensor in folder.model.state_dict().items()}
    foreign = not raw["model_type"].startswith(OURS)
    theirs = export_tensors(ours, FORMATS[family_of(config)], config) if foreign else ours
    kind = torch.float32 if dtype == INT8 else getattr(torch, dtype)
    stored = {name: tensor.to(kind) for name, tensor in theirs.items()}
    if dtype == INT8:
        stored = quantised.quantise(stored)
    files = {WHOLE: weight_bytes(stored), "config.json": json_bytes(raw)}
    if "lm" in getattr(config, "heads", ()) and (foreign or family_of(config) == "gpt"):
        defaults = generation.generation_json(_ids(raw, config), folder.generation, max_length=config.max_length)
        files[generation.FILE] = json_bytes(defaults)
    if folder.processor is not None:
        files[preprocessor.FILE] = json_bytes(preprocessor.processor_json(folder.processor))
    limit = None if tokenizer is None else tokenizer.max_length
    if tokenizer is not None:
        segments = getattr(config, "num_segments", 0) > 1
        left = "lm" in config.heads if family_of(config) == "gpt" else None
        files |= tokenizer.files(segments=segments, left=left)
    return files | sentence_files(folder.sentence, dim=getattr(config, "dim", 0), max_length=limit)


def _with_ids(config: Any, tokenizer: TextTokenizer | None) -> Any:
    """Copy the tokenizer's special token ids into the config, because other libraries compare the two."""
    names = {field.name for field in dataclasses.fields(config)}
    if tokenizer is None or "pad_id" not in names:
        return config
    found = {key: tokenizer.named.get(role) for key, role in (("pad_id", "pad"), ("end_id", "end")) if key in names}
    return dataclasses.replace(config, **{key: number for key, number in found.items() if number is not None})


def _ids(raw: Mapping[str, Any], config: Any) -> dict[str, Any]:
    """Return config.json with the special tokens by Hugging Face's names, also for models that it does not have."""
    own = {"eos_token_id": getattr(config, "end_id", None), "pad_token_id": getattr(config, "pad_id", None)}
    return {**own, **raw}


def config_json(
    config: Any, labels: tuple[str, ...] = (), *, multi_label: bool = False, int8: bool = False
) -> dict[str, Any]:
    """Return the contents of config.json.

    Args:
        config: the family's config.
        labels: the class names.
        multi_label: an example can have any number of labels.
        int8: the weights are stored in int8, which no format of Hugging Face's has.
    """
    try:
        if int8:
            raise Unwritable("the weights are stored in int8")
        raw = _foreign_json(config)
    except Unwritable:
        raw = {"model_type": OURS + family_of(config), "qkv": to_dict(config)}
    if hasattr(config, "num_labels"):
        names = labels or tuple(f"LABEL_{i}" for i in range(config.num_labels))
        if "regress" in config.heads:
            names, raw["problem_type"] = names[:1], "regression"
        elif multi_label and "classify" in config.heads:
            raw["problem_type"] = MULTI_LABEL
        raw["id2label"] = {str(i): name for i, name in enumerate(names)}
        raw["label2id"] = {name: i for i, name in enumerate(names)}
    return raw | {"dtype": "float32"}


def _foreign_json(config: Any) -> dict[str, Any]:
    family = family_of(config)
    if family not in FORMATS:
        raise Unwritable("Hugging Face has no such family")
    return FORMATS[family].write(config)


def why_ours(config: Any) -> str:
    """Return why a config is not written in a format of Hugging Face's; empty if it is."""
    try:
        _foreign_json(config)
    except Unwritable as reason:
        return str(reason)
    return ""


def _fill(model: Headed, tensors: Mapping[str, Tensor], dtype: torch.dtype, folder: Path) -> None:
    """Load tensors into a model built on the meta device. Every tensor must be present and have the right shape."""
    wanted = model.state_dict()
    for name, place in wanted.items():
        if name not in tensors:
            raise QkvError(f"{folder}: the weights lack {name}")
        if tensors[name].shape != place.shape:
            got, want = list(tensors[name].shape), list(place.shape)
            raise QkvError(f"{folder}: {name} has shape {got}, but config.json requires {want}")
    if extra := sorted(set(tensors) - set(wanted)):
        raise QkvError(f"{folder}: the weights contain {extra[0]}, which this model does not have")
    # Copy: tensors from a file may be unaligned, and the rounding of matrix products depends on alignment.
    copies = {name: tensors[name].to(dtype, copy=True, memory_format=torch.contiguous_format) for name in wanted}
    model.load_state_dict(copies, assign=True)


def _cannot_be(folder: Path, error: Exception) -> str:
    """Return the error as one line that names the folder."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if str(folder) in said else f"{folder / 'config.json'} is invalid: {said}"


def _named(folder: Path, work: Any) -> Any:
    try:
        return work()
    except QkvError as error:
        raise QkvError(f"{folder}: {error}") from None


def _generation(folder: Path) -> GenerationDefaults | None:
    file = folder / generation.FILE
    return _named(folder, lambda: generation.read_generation(read_json(file))) if file.is_file() else None


def _prefix(raw: Mapping[str, Any]) -> str:
    """Return the prefix of prompts: that of the folder, or of its only task."""
    tasks = raw.get("task_specific_params")
    named = [task for task in tasks.values() if isinstance(task, Mapping)] if isinstance(tasks, Mapping) else []
    return _text(raw, "prefix") or (_text(named[0], "prefix") if len(named) == 1 else "")


def _text(raw: Mapping[str, Any], key: str) -> str:
    found = raw.get(key)
    return found if isinstance(found, str) else ""


def _labels(raw: Mapping[str, Any]) -> tuple[str, ...]:
    names = raw.get("id2label") or {}
    return tuple(str(names[key]) for key in sorted(names, key=int))


def _threshold(raw: Mapping[str, Any]) -> float:
    threshold = raw.get("threshold", 0.5)
    if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise UsageError(f"the threshold must be from 0 to 1, got {threshold!r}")
    return float(threshold)


def _no_answer(raw: Mapping[str, Any]) -> tuple[bool | None, float]:
    allowed, threshold = raw.get("no_answer"), raw.get("no_answer_threshold", 0.0)
    if allowed is not None and not isinstance(allowed, bool):
        raise UsageError(f"no_answer must be true or false, got {allowed!r}")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise UsageError(f"no_answer_threshold must be a finite number, got {threshold!r}")
    return allowed, float(threshold)
