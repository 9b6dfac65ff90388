"""qkv: train, look inside, shrink and serve your own Transformer.

import qkv

model = qkv.load("path/to/a/model/folder")
model.embed(["a sentence", "another one"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qkv.version import __version__

if TYPE_CHECKING:
    from qkv.predict import Model, Translation, build, info, load, save

__all__ = ["Model", "Translation", "__version__", "build", "info", "load", "save"]


def __getattr__(name: str) -> Any:
    """Import torch only when it is needed, so that `qkv --help` answers at once."""
    if name not in __all__:
        raise AttributeError(f"module 'qkv' has no attribute {name!r}")
    from qkv import predict

    return getattr(predict, name)
