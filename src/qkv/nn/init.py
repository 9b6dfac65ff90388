"""Initial weights, by scheme.

bert         normal(0.02) for matrices and tables, zero biases (Devlin et al. 2019)
gpt          the same, with output projections divided by √(2 · layers) (Radford et al. 2019)
transformer  Xavier for matrices, normal(D^-½) for tables (Vaswani et al. 2017, as in its reference code)
t5           normal with the fan-in rule of Raffel et al. 2020, so that attention needs no 1/√H
vit          Xavier for matrices, the fan-in rule for patches, truncated normal(0.02) for tokens and positions, as the
             code of Dosovitskiy et al. 2021 does
convnet      normal with the fan-out rule (He et al. 2015), truncated normal(0.02) for the head
rnn          uniform(-0.1, 0.1) (Luong et al. 2015), forget gates open
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from qkv.common.errors import unknown
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.embeddings import PatchEmbeddings, TextEmbeddings
from qkv.nn.feedforward import FeedForward
from qkv.nn.heads import LanguageHead
from qkv.nn.image_convolution import ConvolutionalStem
from qkv.nn.positions import ShawPosition
from qkv.nn.stack import Stack


@contextmanager
def without_weights() -> Iterator[None]:
    """Build modules on the meta device: parameters have shapes but no memory, and nothing is drawn for them.

    Each `nn.Linear` and `nn.Embedding` initialises itself when it is built. On the meta device that is a call of Python
    code that imports torch._dynamo, about 0.8 s, to fill tensors that have no values.
    """
    with torch.device("meta"), _Unfilled():
        yield


class _Unfilled(TorchFunctionMode):
    """Turns the functions of `torch.nn.init` into ones that return their tensor unchanged."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        return given["tensor"] if getattr(func, "__module__", "") == nn.init.__name__ else func(*args, **given)


def initialise(model: nn.Module, scheme: str) -> None:
    """Initialise the weights of `model` from torch's random state."""
    if scheme not in SCHEMES:
        raise unknown("initialisation", scheme, SCHEMES)
    if any(parameter.is_meta for parameter in model.parameters()):
        return  # there is nothing to fill
    with torch.no_grad():
        SCHEMES[scheme](model)


def _matrices(model: nn.Module, fill: Callable[[Tensor], Tensor], table: Callable[[Tensor], Tensor]) -> None:
    """Fill weights by their kind; norms start at one, biases at zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            fill(module.weight)
        elif isinstance(module, nn.Embedding):
            table(module.weight)
        elif isinstance(module, ShawPosition):
            table(module.keys), table(module.values)
        elif isinstance(module, PatchEmbeddings):
            table(module.leading)
        elif isinstance(module, LanguageHead) and module.weight is not None:
            table(module.weight)
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm | nn.GroupNorm):
            nn.init.ones_(module.weight)
        bias = getattr(module, "bias", None)
        if isinstance(bias, nn.Parameter):
            nn.init.zeros_(bias)


def _bert(model: nn.Module) -> None:
    normal = partial(nn.init.normal_, std=0.02)
    _matrices(model, normal, normal)


def _gpt(model: nn.Module) -> None:
    _bert(model)
    for stack in (m for m in model.modules() if isinstance(m, Stack)):
        for module in stack.modules():
            if isinstance(module, SelfAttention | FeedForward):
                out = module.out if isinstance(module, SelfAttention) else module.down
                nn.init.normal_(out.weight, std=0.02 / math.sqrt(2 * stack.depth))


def _transformer(model: nn.Module) -> None:
    def table(weight: Tensor) -> Tensor:
        return nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)

    _matrices(model, nn.init.xavier_uniform_, table)
    _fused_apart(model)


def _fused_apart(model: nn.Module) -> None:
    """Give each matrix of a fused product its own Xavier, not that of the whole product."""
    for module in model.modules():
        fused = {SelfAttention: "qkv", CrossAttention: "kv"}.get(type(module))
        if fused is not None:
            weight = getattr(module, fused).weight
            sizes = module.sizes if isinstance(module, SelfAttention) else [len(weight) // 2] * 2
            for part in weight.split(sizes):
                nn.init.xavier_uniform_(part)


def _t5(model: nn.Module) -> None:
    def fan_in(weight: Tensor, heads: int = 1) -> Tensor:
        return nn.init.normal_(weight, std=(weight.shape[-1] * heads) ** -0.5)

    _matrices(model, fan_in, fan_in)
    for module in model.modules():
        if isinstance(module, TextEmbeddings):
            nn.init.normal_(module.token.weight, std=1.0)
        elif isinstance(module, SelfAttention):
            fan_in(module.qkv.weight[: module.sizes[0]], module.head_dim)
        elif isinstance(module, CrossAttention):
            fan_in(module.q.weight, module.head_dim)


def _vit(model: nn.Module) -> None:
    # Matrices of normal(0.02) are too small for narrow models: after 150 steps on 10,000 digits with augmentation, a
    # ViT of width 128 was right on 33 % with them and on 70 % with these.
    _matrices(model, nn.init.xavier_uniform_, partial(nn.init.trunc_normal_, std=0.02))
    _fused_apart(model)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
    for module in model.modules():
        if isinstance(module, ConvolutionalStem):  # its last convolution has no ReLU
            for inner in list(module)[:-1]:
                if isinstance(inner, nn.Conv2d):
                    nn.init.kaiming_normal_(inner.weight, nonlinearity="relu")


def _convnet(model: nn.Module) -> None:
    normal = partial(nn.init.trunc_normal_, std=0.02)
    _matrices(model, normal, normal)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _rnn(model: nn.Module) -> None:
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.1, 0.1)
    for module in model.modules():
        if isinstance(module, nn.LSTM):  # gates are in the order input, forget, cell, output
            for name, bias in module.named_parameters():
                if name.startswith("bias_ih"):
                    bias[module.hidden_size : 2 * module.hidden_size] = 1.0


SCHEMES: dict[str, Callable[[nn.Module], None]] = {
    "bert": _bert,
    "gpt": _gpt,
    "transformer": _transformer,
    "t5": _t5,
    "vit": _vit,
    "convnet": _convnet,
    "rnn": _rnn,
}
