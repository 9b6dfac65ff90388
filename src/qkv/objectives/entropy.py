"""Cross-entropies as sums over the targets that are not ignored, in fp32."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.errors import UsageError
from qkv.common.outputs import LossOutput
from qkv.objectives import fused
from qkv.objectives.parts import IGNORED


def cross_entropy(
    logits: Tensor, wanted: Tensor, *, smoothing: float = 0.0, class_weights: tuple[float, ...] = ()
) -> LossOutput:
    """Compute the cross-entropy with label smoothing (Szegedy et al. 2016, section 7).

    (1 - ε) · -log p(wanted) + ε · the mean of -log p over all classes, times the weight of the wanted class. The sums
    hold "nll", without smoothing and weights, and "correct". Shape: [T, V], [T].
    """
    return mixed_cross_entropy(logits, wanted, None, None, smoothing=smoothing, class_weights=class_weights)


def mixed_cross_entropy(
    logits: Tensor,
    wanted: Tensor,
    other: Tensor | None,
    own: Tensor | None,
    *,
    smoothing: float = 0.0,
    class_weights: tuple[float, ...] = (),
) -> LossOutput:
    """Compute the cross-entropy of images that are mixed from two: own · L(wanted) + (1 - own) · L(other).

    It equals the cross-entropy with the soft target own · wanted + (1 - own) · other (Zhang et al. 2018). The sums are
    about the first label. Shape: [T, V], and [T] for the others.
    """
    if not 0 <= smoothing < 1:
        raise UsageError(f"smoothing must be at least 0 and below 1, got {smoothing}")
    asked = wanted != IGNORED
    loss, nll, right = _rows(logits, wanted, smoothing, class_weights)
    if other is not None and own is not None:
        loss = own * loss + (1 - own) * _rows(logits, other, smoothing, class_weights)[0]
    sums = {"nll": nll.detach().masked_fill(~asked, 0).sum(), "correct": right.sum()}
    return LossOutput(loss.masked_fill(~asked, 0).sum(), asked.sum(), sums)


def _rows(
    logits: Tensor, wanted: Tensor, smoothing: float, class_weights: tuple[float, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of each row, -log p(target), and whether the target has the highest score. Shape: [T]."""
    nll, mean, right = _fused(logits, wanted) if fused.fits(logits) else _plain(logits, wanted)
    loss = nll if not smoothing else (1 - smoothing) * nll + smoothing * mean
    if class_weights:
        loss = loss * _on_device(class_weights, logits.device)[wanted.clamp_min(0)]
    return loss, nll, right


@cache
def _on_device(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Return values as a tensor, made once: a recorded step cannot copy from the host."""
    return torch.tensor(values, device=device)


def _plain(logits: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return -log p(target), the mean of -log p, and whether the target has the highest score. Shape: [T]."""
    log_p = log_softmax(logits)
    nll = -log_p.gather(-1, wanted.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    return nll, -log_p.mean(-1), log_p.detach().argmax(-1) == wanted


def _fused(logits: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    log_z, picked, mean, right = fused.entropy(logits, wanted)
    return log_z - picked, log_z - mean, right


def log_softmax(logits: Tensor) -> Tensor:
    """Return log-probabilities, in fp32 whatever the precision of the logits. Shape: [T, V] -> [T, V]."""
    return F.log_softmax(logits, dim=-1, dtype=torch.float32)


def binary_cross_entropy(logits: Tensor, wanted: Tensor) -> LossOutput:
    """Compute the binary cross-entropy of each element with 1 or 0. Shape: [...], [...]."""
    asked = wanted != IGNORED
    loss = F.binary_cross_entropy_with_logits(logits.float(), wanted.float(), reduction="none")
    right = ((logits.detach() > 0) == (wanted > 0)) & asked
    return LossOutput(loss.masked_fill(~asked, 0).sum(), asked.sum(), {"correct": right.sum()})


def squared_error(found: Tensor, wanted: Tensor) -> LossOutput:
    """Compute the squared error; the sums hold "absolute", the absolute error. Shape: [B], [B]."""
    asked = wanted != IGNORED
    distance = (found.float() - wanted.float()).masked_fill(~asked, 0)
    return LossOutput(distance.square().sum(), asked.sum(), {"absolute": distance.detach().abs().sum()})
