"""Optimizers: AdamW for everything, or Muon for the matrices of the layers and AdamW for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.config import check_range
from qkv.common.errors import QkvError, unknown
from qkv.training.muon import Muon

OPTIMIZERS = ("adamw", "muon")


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """Settings of the optimizer.

    Attributes:
        name: adamw (Loshchilov & Hutter 2019), or muon (Jordan et al. 2024) for the weight matrices of the layers and
            AdamW for the rest.
        lr: the peak learning rate.
        weight_decay: applied to matrices and embedding tables, not to norms and biases.
        beta1: β₁ of AdamW.
        beta2: β₂ of AdamW.
        eps: ε of AdamW.
        clip: the maximum gradient norm. 0 turns clipping off.
        schedule: inverse-sqrt, linear, cosine, stable or constant.
        warmup: warm-up steps. Below 1, a share of all steps.
        layer_decay: for fine-tuning, the learning rate of each layer relative to the layer above it; embeddings get the
            lowest. 1 uses the same rate for all layers.
    """

    name: str = "adamw"
    lr: float = 5e-4
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    clip: float = 1.0
    schedule: str = "inverse-sqrt"
    warmup: float = 0.06
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            check_range(f"optim.{name}", getattr(self, name), 0, below=1)
        for name in ("weight_decay", "eps"):
            check_range(f"optim.{name}", getattr(self, name), 0)


class Optimizer:
    """One or two torch optimizers over a model's parameters, with their state under the parameters' names."""

    def __init__(self, model: nn.Module, config: OptimConfig) -> None:
        if config.name not in OPTIMIZERS:
            raise unknown("optimizer", config.name, OPTIMIZERS)
        self.names: dict[Tensor, str] = {
            parameter: name for name, parameter in model.named_parameters() if parameter.requires_grad
        }
        matrices = [p for p, name in self.names.items() if config.name == "muon" and _is_layer_matrix(name, p)]
        chosen = set(matrices)
        rest = [p for p in self.names if p not in chosen]
        device = next(iter(self.names)).device
        self.shares = layer_shares(self.names.values(), config.layer_decay)
        # tensors, so that a recorded step reads their current values
        self.rates = {s: torch.tensor(config.lr * s, device=device) for s in sorted(set(self.shares.values()))[::-1]}
        self.inner: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(
                [
                    *self._groups([p for p in rest if p.dim() >= 2], config.weight_decay),
                    *self._groups([p for p in rest if p.dim() < 2], 0.0),
                ],
                lr=config.lr,
                betas=(config.beta1, config.beta2),
                eps=config.eps,
                fused=True,
                capturable=device.type == "cuda",
            )
        ]
        if matrices:
            groups = self._groups(matrices, config.weight_decay)
            self.inner.append(Muon(groups, lr=config.lr, weight_decay=config.weight_decay))  # type: ignore[arg-type]
        self.peak, self.clip = config.lr, config.clip

    def _groups(self, parameters: list[Tensor], weight_decay: float) -> list[dict[str, Any]]:
        """Group parameters that have the same learning rate."""
        by_share: dict[float, list[Tensor]] = {share: [] for share in self.rates}
        for parameter in parameters:
            by_share[self.shares[self.names[parameter]]].append(parameter)
        kept = {share: group for share, group in by_share.items() if group or len(by_share) == 1}
        return [{"params": p, "weight_decay": weight_decay, "lr": self.rates[share]} for share, p in kept.items()]

    def set_rate(self, share: float) -> None:
        """Set the learning rate of the next step to `share` of the peak, times the share of each layer."""
        for of_layer, rate in self.rates.items():
            rate.fill_(self.peak * of_layer * share)

    def norm(self) -> Tensor:
        """Return the global gradient norm. Shape: []."""
        return nn.utils.get_total_norm([parameter.grad for parameter in self.names if parameter.grad is not None])

    def step(self, norm: Tensor) -> None:
        """Update the weights and clear the gradients.

        Args:
            norm: the gradient norm. If it is above `clip`, the gradients are scaled down to it; if it is not finite, no
                weight changes. Both happen on the device as part of the update, without a sync or another pass.
        """
        scale = (norm / self.clip).clamp_min(1.0) if self.clip > 0 else torch.ones_like(norm)
        hold = (~norm.isfinite()).float()
        for optimizer in self.inner:
            # the attributes that torch's GradScaler sets: a fused step divides the gradients, or does nothing
            optimizer.grad_scale, optimizer.found_inf = scale, hold  # type: ignore[attr-defined]
            optimizer.step()
        self.forget()

    def forget(self) -> None:
        """Clear the gradients."""
        for optimizer in self.inner:
            optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """Return the state as "parameter/key" -> tensor."""
        return {
            f"{self.names[parameter]}/{key}": value
            for optimizer in self.inner
            for parameter, state in optimizer.state.items()
            for key, value in state.items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the state."""
        known = {name: parameter for parameter, name in self.names.items()}
        owner = {p: optimizer for optimizer in self.inner for group in optimizer.param_groups for p in group["params"]}
        for place, value in tensors.items():
            name, _, key = place.rpartition("/")
            if name not in known:
                raise QkvError(f"the checkpoint's optimizer has a state for {name}, which this model does not have")
            parameter = known[name]
            # torch keeps the step counter of a fused AdamW on the device of its parameter
            owner[parameter].state[parameter][key] = value.to(parameter.device)


def layer_shares(names: Iterable[str], decay: float) -> dict[str, float]:
    """Return each parameter's share of the learning rate: 1 for heads and the last layer, × `decay` per layer below.

    The lower layers of a trained model are general and should change least (Howard & Ruder 2018; Clark et al. 2020).
    """
    depths = {name: _depth(name) for name in names}
    most = max((depth for depth in depths.values() if depth is not None), default=0)
    return {name: 1.0 if depth is None else decay ** (most - depth) for name, depth in depths.items()}


def _depth(name: str) -> int | None:
    """Return 0 for embeddings, 1 for the lowest layer and so on; None for parameters above the layers."""
    layer = re.search(r"\bblocks\.(\d+)\.", name)
    if layer:
        return int(layer[1]) + 1
    return 0 if re.search(r"\bembeddings\.|\bposition\b", name) else None


def _is_layer_matrix(name: str, parameter: Tensor) -> bool:
    """Whether a parameter is a matrix inside a stack of layers; AdamW updates embedding tables and heads."""
    return parameter.dim() == 2 and ".blocks." in name
