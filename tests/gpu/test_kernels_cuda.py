"""The CUDA kernels against the eager one: same calls, bf16, forwards and backwards. Run with `make test-gpu`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from qkv.common.ragged import Ragged
from qkv.models import catalogue
from qkv.nn import kernels
from qkv.nn.kernels import Bias, Call
from tests.contracts.entries import batch_for, make, shrink

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

LENGTHS = [37, 1, 200, 64, 5]


def call(*, heads: int = 4, kv_heads: int = 4, keys: list[int] | None = None, grad: bool = True, **rest: Any) -> Call:
    torch.manual_seed(0)
    key_lengths = keys or LENGTHS

    def draw(rows: int, heads: int) -> torch.Tensor:
        return torch.randn(rows, heads, 64, device="cuda", dtype=torch.bfloat16).requires_grad_(grad)

    queries = Ragged.of(LENGTHS, "cuda")
    same = keys is None
    return Call(
        q=draw(sum(LENGTHS), heads),
        k=draw(sum(key_lengths), kv_heads),
        v=draw(sum(key_lengths), kv_heads),
        queries=queries,
        keys=queries if same else Ragged.of(key_lengths, "cuda"),
        scale=0.125,
        **rest,
    )


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    assert found.isfinite().all()
    found, expected = found.detach().float(), expected.detach().float()
    return float((found - expected).norm() / expected.norm())


def compare(name: str, asked: Call) -> None:
    tensors = [asked.q, asked.k, asked.v, *([asked.bias.table] if asked.bias is not None else [])]
    expected, found = kernels.eager(asked), kernels.KERNELS[name](asked)
    assert relative_error(found, expected) < 1e-2
    weight = torch.randn_like(expected)
    for mine, other in zip(
        torch.autograd.grad((found * weight).sum(), tensors),
        torch.autograd.grad((expected * weight).sum(), tensors),
        strict=True,
    ):
        assert relative_error(mine, other) < 2e-2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_varlen(causal: bool, window: int | None, kv_heads: int) -> None:
    compare("varlen", call(causal=causal, window=window, kv_heads=kv_heads))


def test_varlen_over_another_layout() -> None:
    compare("varlen", call(keys=[3, 90, 11, 128, 1]))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("window", "kv_heads", "reach"), [(None, 4, 50), (7, 4, 3), (None, 2, 300)])
def test_biased(causal: bool, window: int | None, kv_heads: int, reach: int) -> None:
    table = torch.randn(4, 2 * reach + 1, device="cuda").requires_grad_()
    compare("biased", call(causal=causal, window=window, kv_heads=kv_heads, bias=Bias(table)))


@pytest.mark.parametrize("name", ["biased", "auto"])
def test_biased_over_another_layout(name: str) -> None:
    table = torch.randn(4, 41, device="cuda").requires_grad_()
    asked = call(keys=[40, 90, 210, 128, 5], causal=True, bias=Bias(table))
    compare("biased", asked)
    assert kernels.automatic(asked).equal(kernels.biased(asked))


@pytest.mark.parametrize(("name", "biased"), [("varlen", False), ("auto", False), ("auto", True)])
def test_a_cache_with_slack(name: str, biased: bool) -> None:
    if name == "varlen" and not kernels.VARLEN_READS_SLACK:
        pytest.skip("this torch's varlen_attn takes no seqused_k")
    lengths = [9, 64, 3]
    keys = Ragged(
        offsets=torch.arange(4, device="cuda", dtype=torch.int32) * 80,
        lengths=torch.tensor(lengths, device="cuda", dtype=torch.int32),
        max_length=64,
        num_rows=240,
        pitch=80,
        packed=False,
    )
    torch.manual_seed(0)
    k, v = (torch.randn(240, 4, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    q = torch.randn(5, 4, 64, device="cuda", dtype=torch.bfloat16)
    bias = Bias(torch.randn(4, 21, device="cuda")) if biased else None
    asked = Call(q=q, k=k, v=v, queries=Ragged.of([1, 3, 1], "cuda"), keys=keys, scale=0.125, causal=True, bias=bias)
    found = kernels.automatic(asked) if name == "auto" else kernels.varlen(asked)
    assert relative_error(found, kernels.eager(asked)) < 1e-2


@pytest.mark.parametrize("position", ["learned", "bucketed", "alibi", "rotary", "rotary-dynamic", "relative"])
@pytest.mark.parametrize("preset", ["bert-base", "gpt2", "t5-small", "vit-b16"])
def test_models_agree_with_eager(preset: str, position: str) -> None:
    config = shrink(
        catalogue.preset(preset), position=position, dim=128, **({"head_dim": 32} if "t5" in preset else {})
    )
    model = make(config).cuda().bfloat16()
    batch = _to_cuda(batch_for(config))
    reference = make(config).cuda()
    kernels.use(reference, "eager")
    expected = reference(_to_cuda(batch_for(config), torch.float32)).states  # in fp32
    kernels.use(model, "eager")
    noise = relative_error(model(batch).states, expected)  # what bf16 costs by itself
    kernels.use(model, "auto")
    assert relative_error(model(batch).states, expected) < 1.5 * noise + 1e-3


def _to_cuda(batch: Any, dtype: torch.dtype = torch.bfloat16) -> Any:
    from qkv.common.batch import Images, Pairs, Tokens

    if isinstance(batch, Images):
        return Images(batch.pixels.cuda().to(dtype))
    if isinstance(batch, Pairs):
        return Pairs(_to_cuda(batch.source), _to_cuda(batch.target))
    layout = Ragged.of(batch.layout.host_lengths, "cuda")
    return Tokens(batch.ids.cuda(), layout, None if batch.segments is None else batch.segments.cuda())
