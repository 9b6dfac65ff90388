"""Run exported graphs with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from qkv.common.errors import QkvError
from qkv.compression.export.feeds import GraphEngine
from qkv.compression.export.tracing import INSTALL, first_line
from qkv.data.optional import need
from qkv.models.skeleton import Headed


class OnnxEngine(GraphEngine):
    """The graphs of a folder; each is loaded when it is first needed.

    Args:
        folder: holds NAME.onnx for each graph, and their weights.
    """

    name = "onnxruntime float32"

    def __init__(self, folder: Path, model: Headed) -> None:
        del model
        self._folder = folder
        self._runtime = need("onnxruntime", f"running {folder}", INSTALL)
        self._sessions: dict[str, Any] = {}

    def run(self, graph: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Compute the outputs of a graph."""
        session = self._session(graph)
        value = self._runtime.OrtValue.ortvalue_from_numpy
        names = [output.name for output in session.get_outputs()]
        feeds = {each.name: value(given[each.name].contiguous().numpy()) for each in session.get_inputs()}
        return dict(zip(names, map(_tensor, session.run_with_ort_values(names, feeds)), strict=True))

    def _session(self, graph: str) -> Any:
        if graph not in self._sessions:
            options = self._runtime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            options.log_severity_level = 3
            place = self._folder / f"{graph}.onnx"
            try:
                found = self._runtime.InferenceSession(str(place), options, providers=["CPUExecutionProvider"])
            except Exception as error:  # ONNX Runtime has its own errors for each kind of damage
                raise QkvError(f"{place} cannot be loaded: {first_line(error)[:200]}") from None
            self._sessions[graph] = found
        return self._sessions[graph]


def _tensor(value: Any) -> Tensor:
    """Return what ONNX Runtime computed, without a copy where it lends its memory."""
    return from_dlpack(value) if hasattr(value, "__dlpack__") else torch.from_numpy(value.numpy())
