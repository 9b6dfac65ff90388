"""Tracing: from a module with example inputs to a program of tensor operations."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.export import Dim, ExportedProgram

from qkv.common.errors import QkvError
from qkv.compression.export.graphs import Graph

INSTALL = "'qkv[export]'"  # has what every format needs


def traced(name: str, graph: Graph) -> ExportedProgram:
    """Trace a graph; the error of one that cannot be traced names it."""
    varying = {key: {i: Dim.DYNAMIC for i, dim in enumerate(dims) if dim} for key, dims in graph.dims.items()}
    try:
        with torch.no_grad(), quietly():
            return torch.export.export(graph.module.eval(), (graph.example,), dynamic_shapes=(varying,), strict=False)
    except Exception as error:  # whatever torch's tracer meets in a part that it does not know
        raise QkvError(f"the graph {name} cannot be traced: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Return the first line of a message that may have hundreds."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def quietly() -> Iterator[None]:
    """Hide the exporter's warnings about missing packages and about its own deprecations."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch._inductor", "torch.export")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
