"""Graphs as ONNX files, which share one file of weights: a table that two graphs need is stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch

from qkv.common.errors import QkvError
from qkv.common.progress import Bar
from qkv.compression.export.graphs import Graph
from qkv.compression.export.tracing import INSTALL, first_line, quietly, traced
from qkv.data.optional import need

WEIGHTS = "model.onnx.data"
LEAST = 1024  # bytes of a tensor that is stored outside its graph
ALIGNED = 4096  # so that ONNX Runtime can map the file instead of reading it


def onnx_files(graphs: Mapping[str, Graph]) -> dict[str, bytes]:
    """Return the files by name: a graph each, and their weights."""
    need("onnx", "exporting to ONNX", INSTALL)
    need("onnxscript", "exporting to ONNX", INSTALL)
    with Bar("exporting", total=len(graphs)) as bar:
        protos = {name: _converted(name, graph) for name, graph in bar.each(graphs.items())}
    weights = _shared_weights(protos.values())
    return {f"{name}.onnx": proto.SerializeToString() for name, proto in protos.items()} | {WEIGHTS: weights}


def _converted(name: str, graph: Graph) -> Any:
    program = traced(name, graph)
    inputs = list(graph.example)
    try:
        with quietly():
            found = torch.onnx.export(program, dynamo=True, optimize=True, verbose=False, input_names=inputs)
    except Exception as error:  # an operation that ONNX does not have
        raise QkvError(f"the graph {name} cannot be written as ONNX: {first_line(error)}") from error
    assert found is not None
    proto = found.model_proto
    _name_dims(proto, graph)
    _name_outputs(proto, graph)
    return proto


def _name_dims(proto: Any, graph: Graph) -> None:
    """Give the dimensions that vary the names that the graph has for them."""
    known = {}
    for given in proto.graph.input:
        for dim, name in zip(given.type.tensor_type.shape.dim, graph.dims[given.name], strict=True):
            if name:
                if not dim.dim_param:
                    raise QkvError(f"the dimension {name} of {given.name} became {dim.dim_value}")
                known[dim.dim_param] = name
                dim.dim_param = name
    for value in [*proto.graph.output, *proto.graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in known:
                dim.dim_param = known[dim.dim_param]


def _name_outputs(proto: Any, graph: Graph) -> None:
    """Name the outputs after the keys of the dict that the module returns."""
    with torch.no_grad():
        names = list(graph.module(graph.example))
    renamed = {output.name: name for output, name in zip(proto.graph.output, names, strict=True)}
    for output in proto.graph.output:
        output.name = renamed[output.name]
    for node in proto.graph.node:
        for place in (node.input, node.output):
            place[:] = [renamed.get(name, name) for name in place]
    for value in proto.graph.value_info:
        value.name = renamed.get(value.name, value.name)


def _shared_weights(protos: Any) -> bytes:
    """Move large tensors into one run of bytes, equal ones to the same place."""
    places: dict[bytes, tuple[int, int]] = {}
    weights = bytearray()
    for proto in protos:
        for tensor in proto.graph.initializer:
            data = tensor.raw_data
            if len(data) < LEAST:
                continue
            key = hashlib.sha256(data).digest()
            if key not in places:
                weights.extend(bytes(-len(weights) % ALIGNED))
                places[key] = (len(weights), len(data))
                weights.extend(data)
            tensor.ClearField("raw_data")
            tensor.data_location = 1  # EXTERNAL
            for field, value in zip(("location", "offset", "length"), (WEIGHTS, *places[key]), strict=True):
                entry = tensor.external_data.add()
                entry.key, entry.value = field, str(value)
    return bytes(weights)
