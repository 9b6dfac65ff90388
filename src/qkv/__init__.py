"""qkv: train, look inside, shrink and serve your own Transformer.

    import qkv

    model = qkv.load("path/to/a/model/folder")   # or a built-in name: "en-de"
    print(model)                                 # what it is, and what it can do
    model.embed(["a sentence", "another one"])
    model.evaluate("test.csv")

load, build, save, info       models: from a folder, from a preset, to a folder, facts about one
finetune, train, distill      training: a model folder on your table; any recipe, with your own parts; a smaller model
shrink                        distilling, pruning and quantising until a model meets a target
latency                       how long a model's answers take, with every engine that can run it
Model                         what `load` returns; `help(qkv.Model)` lists its verbs
Label, Entity, Answer, Choice, Translation, Generated, Likelihood, Explanation, Look
                              the answers of the verbs
QkvError, UsageError          errors: something failed; something was asked for that is not there
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qkv.version import __version__

if TYPE_CHECKING:
    from qkv.common.errors import QkvError, UsageError
    from qkv.predict import (
        Answer,
        Choice,
        Entity,
        Explanation,
        Explanations,
        Generated,
        Label,
        Likelihood,
        Look,
        Translation,
        info,
        save,
    )
    from qkv.predict.latency.measure import latency
    from qkv.runs.distil import distill
    from qkv.runs.finetune import finetune
    from qkv.runs.model import Model, build, load
    from qkv.runs.shrink import shrink
    from qkv.runs.train import train

__all__ = [
    "Answer",
    "Choice",
    "Entity",
    "Explanation",
    "Explanations",
    "Generated",
    "Label",
    "Likelihood",
    "Look",
    "Model",
    "QkvError",
    "Translation",
    "UsageError",
    "__version__",
    "build",
    "distill",
    "finetune",
    "info",
    "latency",
    "load",
    "save",
    "shrink",
    "train",
]

_PLACES = {
    "qkv.common.errors": ("QkvError", "UsageError"),
    "qkv.predict": (
        "Answer",
        "Choice",
        "Entity",
        "Explanation",
        "Explanations",
        "Generated",
        "Label",
        "Likelihood",
        "Look",
        "Translation",
        "info",
        "save",
    ),
    "qkv.predict.latency.measure": ("latency",),
    "qkv.runs.distil": ("distill",),
    "qkv.runs.finetune": ("finetune",),
    "qkv.runs.model": ("Model", "build", "load"),
    "qkv.runs.shrink": ("shrink",),
    "qkv.runs.train": ("train",),
}


def __getattr__(name: str) -> Any:
    """Import torch only when it is needed, so that `qkv --help` answers at once."""
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"module 'qkv' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what the package offers, without importing it."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
