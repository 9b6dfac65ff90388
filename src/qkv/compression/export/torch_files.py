"""Graphs as packages of AOTInductor: C++ that torch compiles ahead of time, with the weights."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qkv.common.errors import QkvError
from qkv.common.progress import Bar
from qkv.compression.export.feeds import GraphEngine
from qkv.compression.export.graphs import Graph
from qkv.compression.export.tracing import first_line, quietly, traced
from qkv.models.skeleton import Headed

INPUTS = "qkv_inputs"  # of a package's metadata: the names of the graph's inputs, in their order


def torch_files(graphs: Mapping[str, Graph]) -> dict[str, bytes]:
    """Return the files by name: a package for each graph."""
    with Bar("compiling", total=len(graphs)) as bar:
        return {f"{name}.pt2": _compiled(name, graph) for name, graph in bar.each(graphs.items())}


def _compiled(name: str, graph: Graph) -> bytes:
    program = traced(name, graph)
    options = {"aot_inductor.metadata": {INPUTS: " ".join(graph.example)}}
    with tempfile.TemporaryDirectory(prefix="qkv-") as place:
        path = str(Path(place) / "graph.pt2")
        try:
            with quietly():
                torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs=options)
        except Exception as error:  # no C++ compiler, or an operation that Inductor does not have
            raise QkvError(f"torch cannot compile the graph {name}: {first_line(error)}") from error
        return Path(path).read_bytes()


class TorchEngine(GraphEngine):
    """The packages of a folder; each is loaded when it is first needed.

    Args:
        folder: holds NAME.pt2 for each graph.
    """

    name = "torch AOTInductor float32"

    def __init__(self, folder: Path, model: Headed) -> None:
        del model
        self._folder = folder
        self._packages: dict[str, Any] = {}

    def run(self, graph: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Compute the outputs of a graph."""
        run, names = self._package(graph)
        found: dict[str, Tensor] = run({name: given[name].contiguous() for name in names})
        return found

    def _package(self, graph: str) -> tuple[Any, list[str]]:
        if graph not in self._packages:
            place = self._folder / f"{graph}.pt2"
            try:
                with quietly():
                    found = torch._inductor.aoti_load_package(str(place))
            except Exception as error:  # damaged, or compiled for another version of torch or another kind of CPU
                raise QkvError(f"{place} cannot be loaded: {first_line(error)[:200]}") from None
            self._packages[graph] = found, found.get_metadata()[INPUTS].split()
        return self._packages[graph]
