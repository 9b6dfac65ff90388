"""The verbs as the server runs them: columns and options in, one answer for each text out, as JSON has it.

A column has one value for each text, so the columns of several requests with the same options can be joined.
"""

from __future__ import annotations

import base64
import binascii
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from qkv.common.errors import QkvError, UsageError
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.recurrent import SegmentAttention
from qkv.predict import Model
from qkv.predict.classify import to_dict
from qkv.predict.explain import explainable
from qkv.predict.generate import LENGTH, defaults_of
from qkv.predict.search import Hit
from qkv.predict.translate import translate

Columns = Mapping[str, Sequence[Any]]
Options = Mapping[str, Any]
Answers = list[Any]


def _translate(model: Model, columns: Columns, options: Options) -> Answers:
    asked = dict(options)
    shown = {"scores": asked.pop("scores", False), "others": asked.get("nbest", 1) > 1}
    found = translate(model, columns["texts"], **asked)
    return [one.to_dict(**shown) for one in found]


def _generate(model: Model, columns: Columns, options: Options) -> Answers:
    asked = dict(options)
    tokens = asked.pop("tokens", False)
    return [one.to_dict(tokens=tokens) for one in model.generate(columns["texts"], **asked)]


def _classify(model: Model, columns: Columns, options: Options) -> Answers:
    return [to_dict(one) for one in model.classify(columns["texts"], columns.get("pairs"), **options)]


def _tag(model: Model, columns: Columns, options: Options) -> Answers:
    words = options.get("words")
    name = "words" if words or (words is None and not model.tags_entities) else "entities"
    return [{name: [one.to_dict() for one in found]} for found in model.tag(columns["texts"], words=words)]


def _answer(model: Model, columns: Columns, options: Options) -> Answers:
    found = model.answer(columns["texts"], columns["contexts"], **options)
    return [one.to_dict(others=options.get("nbest", 1) > 1) for one in found]


def _fill(model: Model, columns: Columns, options: Options) -> Answers:
    found = model.fill(columns["texts"], **options)
    return [{"masks": [[one.to_dict() for one in mask] for mask in masks]} for masks in found]


def _embed(model: Model, columns: Columns, options: Options) -> Answers:
    vectors: list[list[float]] = model.embed(columns["texts"], **options).tolist()
    return vectors


def _similar(model: Model, columns: Columns, options: Options) -> Answers:
    del options
    a, b = columns["texts"], columns.get("pairs")
    first = model.embed(a, normalize=True)
    if b is None:
        return [{"cosines": row} for row in (first @ first.T).tolist()]
    return [{"cosine": one} for one in (first * model.embed(b, normalize=True)).sum(1).tolist()]


def _search(model: Model, columns: Columns, options: Options) -> Answers:
    lines = [(number, line) for number, line in enumerate(options["lines"], 1) if line.strip()]
    if not lines:
        raise UsageError("lines hold no text: there is nothing to search")
    near = model.embed(columns["texts"], normalize=True) @ model.embed([text for _, text in lines], normalize=True).T
    best = np.argsort(-near, axis=1, kind="stable")[:, : options.get("top", 5)]
    return [
        {"hits": [Hit(lines[place][0], lines[place][1], float(row[place])).to_dict() for place in places.tolist()]}
        for row, places in zip(near, best, strict=True)
    ]


def _image(model: Model, columns: Columns, options: Options) -> Answers:
    with _files(columns["texts"]) as files:
        return [to_dict(one) for one in model.classify(files, **options)]


def _look(model: Model, columns: Columns, options: Options) -> Answers:
    targets = columns.get("targets") or [None] * len(columns["texts"])
    asked = {key: options[key] for key in ("beam",) if key in options}
    which = {key: options[key] for key in ("layer", "head", "part") if key in options}
    if not model.reads_images:
        return [_looked(model, *pair, asked, which, options) for pair in zip(columns["texts"], targets, strict=True)]
    with _files(columns["texts"]) as files:
        return [_looked(model, *pair, asked, which, options) for pair in zip(files, targets, strict=True)]


def _looked(
    model: Model, text: str, target: str | None, asked: Options, which: Options, options: Options
) -> dict[str, Any]:
    found = model.look(text, target, **asked)
    if model.reads_images:
        found = replace(found, texts=[Path(text).name])  # nobody is to know where the server keeps its files
    return found.to_dict(**which) | ({"html": found.html()} if options.get("html") else {})


def _explain(model: Model, columns: Columns, options: Options) -> Answers:
    found = model.explain(columns["texts"], columns.get("pairs"), **options)
    answers: Answers = [{"explanations": []} for _ in columns["texts"]]
    for one in found:
        answers[one.number]["explanations"].append(one.to_dict())
    return answers


VERBS: dict[str, Callable[[Model, Columns, Options], Answers]] = {
    "translate": _translate,
    "generate": _generate,
    "classify": _classify,
    "pairs": _classify,
    "tag": _tag,
    "answer": _answer,
    "fill": _fill,
    "embed": _embed,
    "similar": _similar,
    "search": _search,
    "image": _image,
    "look": _look,
    "explain": _explain,
}
JOINED = {"translate", "generate", "classify", "pairs", "tag", "answer", "fill", "embed"}
"""Verbs whose texts have nothing to do with each other, so that requests are answered together."""
WATCHED = {"translate", "generate", "embed", "explain"}
"""Verbs that report their progress, so that they can be stopped between two batches."""
assert all("progress" in inspect.signature(getattr(Model, verb)).parameters for verb in WATCHED)


def verbs_of(model: Model) -> list[str]:
    """Return the verbs that the server has for a model, the one it was made for first."""
    own = [verb for verb in model.verbs if verb in VERBS]
    if model.reads_images:
        found = ["image"] if "classify" in own else []
    else:
        found = [*own, *(["pairs"] if "classify" in own else []), *(["search"] if "embed" in own else [])]
    attends = not model.exported and any(
        isinstance(part, SelfAttention | CrossAttention | SegmentAttention) for part in model.module.modules()
    )
    return [*found, *(["look"] if attends else []), *(["explain"] if explainable(model) else [])]


def facts_of(model: Model) -> dict[str, Any]:
    """Return what `/v1/models` says of a model."""
    about, able = model.describe(), verbs_of(model)
    return {
        "verbs": able,
        "task": able[0] if able else None,
        "family": model.family,
        "images": model.reads_images,
        "parameters": about["parameters"],
        "max_length": model.max_length,
        "number": "regress" in getattr(model.config, "heads", ()) and "classify" not in model.config.heads,
        "labels": [str(label) for label in model.label_names],
        "tasks": about["tasks"],
        "engine": model.engine,
        "device": str(model.device),
        "dim": getattr(model.config, "dim", None),
        "mask": _mask(model),
    }


def usual_length(model: Model) -> int:
    """Return how many tokens a model generates by default."""
    usual = defaults_of(model).most_new(1)
    return LENGTH if usual is None else usual


def _mask(model: Model) -> str | None:
    """Return the mask as a user types it."""
    number = model.tokenizer.specials.get("mask") if model.tokenizer else None
    return None if number is None or model.tokenizer is None else model.tokenizer.token_of(number)


@contextmanager
def _files(images: Sequence[str]) -> Iterator[list[str]]:
    """Write images into files, so that they are read with the checks of images from anybody."""
    with TemporaryDirectory(prefix="qkv-") as place:
        files = [Path(place, f"image {number}") for number in range(len(images))]
        for file, image in zip(files, images, strict=True):
            file.write_bytes(_decoded(file.name, image))
        try:
            yield [str(file) for file in files]
        except QkvError as error:
            raise UsageError(str(error).replace(f"{place}/", "")) from None


def _decoded(name: str, image: str) -> bytes:
    start = image.find(",") + 1 if image.startswith("data:") else 0
    try:
        return base64.b64decode(image[start:], validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"{name} is not base64: send a PNG or JPEG file in base64, or as a data: URL") from None
