"""qkv: train, look inside, shrink and serve your own Transformer.

import qkv

model = qkv.load("path/to/a/model/folder")
model.embed(["a sentence", "another one"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qkv.version import __version__

if TYPE_CHECKING:
    from qkv.predict import Answer, Choice, Entity, Label, Model, Translation, build, info, load, save
    from qkv.runs.finetune import finetune
    from qkv.runs.train import train

__all__ = [
    "Answer",
    "Choice",
    "Entity",
    "Label",
    "Model",
    "Translation",
    "__version__",
    "build",
    "finetune",
    "info",
    "load",
    "save",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import torch only when it is needed, so that `qkv --help` answers at once."""
    if name not in __all__:
        raise AttributeError(f"module 'qkv' has no attribute {name!r}")
    if name == "finetune":
        from qkv.runs.finetune import finetune

        return finetune
    if name == "train":
        from qkv.runs.train import train

        return train
    from qkv import predict

    return getattr(predict, name)
