"""A tiny job for the loop: regression on numbers, every batch a pure function of its position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from qkv.checkpoints.update import with_digests
from qkv.checkpoints.weights import WHOLE, weight_bytes
from qkv.common.outputs import LossOutput
from qkv.training.run import Job


class Squares:
    """Sum of squared errors over rows; a batch is (x, y)."""

    weights = {"squares": 1.0}  # noqa: RUF012

    def counts(self, batch: Any) -> dict[str, int]:
        return {"squares": len(batch["x"])}

    def __call__(self, model: nn.Module, batch: Any) -> dict[str, LossOutput]:
        error = (model(batch["x"]).squeeze(-1) - batch["y"]) ** 2
        return {"squares": LossOutput(error.sum(), torch.tensor(len(error)))}


def batch_at(position: int, rows: int = 8) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(position)
    x = torch.randn(rows, 6, generator=draw)
    return {"x": x, "y": x.sum(-1) + 0.1 * torch.randn(rows, generator=draw)}


def batches(position: int) -> Iterator[tuple[Any, int]]:
    while True:
        yield batch_at(position), position + 1
        position += 1


def model(dropout: float = 0.2) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 1))


def job(folder: Path, *, total: int = 30, **changes: Any) -> Job:
    folder.mkdir(parents=True, exist_ok=True)

    def finish(module: nn.Module, where: Path) -> None:
        where.mkdir(exist_ok=True)
        for name, data in with_digests({WHOLE: weight_bytes(module.state_dict())}).items():
            (where / name).write_bytes(data)

    given: dict[str, Any] = {
        "model": model(),
        "objective": Squares(),
        "batches": batches,
        "total": total,
        "folder": folder,
        "valid": lambda: [batch_at(10_000 + i) for i in range(3)],
        "finish": finish,
        "say": lambda message: None,
    }
    return Job(**given | changes)


def final(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / WHOLE)


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
