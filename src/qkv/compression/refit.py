"""Give a model folder another config and the weights that fit it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from qkv.checkpoints.folder import Folder
from qkv.models import catalogue
from qkv.nn.init import without_weights


def refit(folder: Folder, config: Any, tensors: Mapping[str, Tensor]) -> Folder:
    """Return a folder with a model of `config` that holds these tensors; everything else stays as it is."""
    with without_weights():
        model = catalogue.build(config)
    # A product reads contiguous rows fastest; a slice of columns is not contiguous.
    model.load_state_dict({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, assign=True)
    return replace(folder, config=config, model=model.eval(), stored_as="")
