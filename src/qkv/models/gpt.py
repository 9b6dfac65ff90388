"""GPT-2 (Radford et al. 2019) and GPT-3's shape (Brown et al. 2020): a causal stack with the norm first."""

from __future__ import annotations

from dataclasses import dataclass

from qkv.models.parts import build_heads, build_stack, is_tied, norm_of
from qkv.models.position import PositionConfig, added_position
from qkv.models.skeleton import Transformer
from qkv.nn.embeddings import TextEmbeddings
from qkv.nn.heads import LanguageHead, Pooler, SequenceHead, SpanHead, TokenHead
from qkv.nn.init import initialise


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Hyperparameters of a GPT.

    Attributes:
        vocab_size: V.
        dim: D.
        num_layers: layers.
        num_heads: attention heads of each.
        head_dim: width of a head where it is not dim / num_heads, as after pruning.
        num_kv_heads: key/value heads that the query heads share, or None for one each.
        ff_dim: width inside the feed-forward.
        max_length: longest sequence.
        window: how far back a token sees, or None for everything.
        activation: of the feed-forward.
        norm: layer or rms.
        norm_eps: epsilon of the norms.
        dropout: on embeddings and before each residual sum.
        attention_dropout: on attention weights.
        position: how positions are encoded.
        heads: any of lm, classify, tag, span.
        num_labels: of classify and tag.
        output: tied (scores use the token table) or own (a table of their own).
        end_id: the token that ends a text, where it is known.
        pad_id: the token that other libraries fill batches with, where it is known.
    """

    vocab_size: int = 50_257
    dim: int = 768
    num_layers: int = 12
    num_heads: int = 12
    head_dim: int | None = None
    num_kv_heads: int | None = None
    ff_dim: int = 3072
    max_length: int = 1024
    window: int | None = None
    activation: str = "gelu_tanh"
    norm: str = "layer"
    norm_eps: float = 1e-5
    dropout: float = 0.1
    attention_dropout: float = 0.1
    position: PositionConfig = PositionConfig(name="learned")
    heads: tuple[str, ...] = ("lm",)
    num_labels: int = 2
    output: str = "tied"
    end_id: int | None = None
    pad_id: int | None = None


def build(config: GPTConfig) -> Transformer:
    """Build a GPT."""
    tied = is_tied(config.output)
    embeddings = TextEmbeddings(
        config.vocab_size,
        config.dim,
        position=added_position(config.position, max_length=config.max_length, dim=config.dim),
        dropout=config.dropout,
    )
    stack = build_stack(
        position=config.position,
        max_length=config.max_length,
        attention={
            "dim": config.dim,
            "num_heads": config.num_heads,
            "head_dim": config.head_dim,
            "num_kv_heads": config.num_kv_heads,
            "causal": True,
            "window": config.window,
            "dropout": config.attention_dropout,
        },
        feedforward={"dim": config.dim, "ff_dim": config.ff_dim, "activation": config.activation},
        norm=norm_of(config.norm, config.dim, config.norm_eps),
        num_layers=config.num_layers,
        pre_norm=True,
        dropout=config.dropout,
    )
    heads = build_heads(
        config.heads,
        {
            "lm": lambda: LanguageHead(config.dim, config.vocab_size, tied=tied),
            "classify": lambda: SequenceHead(config.dim, config.num_labels, bias=False),
            "tag": lambda: TokenHead(config.dim, config.num_labels, dropout=config.dropout),
            "span": lambda: SpanHead(config.dim),
        },
    )
    pooler = Pooler(config.dim, row="last") if "classify" in heads else None
    model = Transformer(embeddings=embeddings, stack=stack, heads=heads, pooler=pooler)
    initialise(model, "gpt")
    return model


def _size(num_layers: int, dim: int, num_heads: int, **rest: object) -> GPTConfig:
    return GPTConfig(num_layers=num_layers, dim=dim, num_heads=num_heads, ff_dim=4 * dim, **rest)  # type: ignore[arg-type]


PRESETS = {
    "gpt2": _size(12, 768, 12),
    "gpt2-medium": _size(24, 1024, 16),
    "gpt2-large": _size(36, 1280, 20),
    "gpt2-xl": _size(48, 1600, 25),
    "gpt3": _size(96, 12_288, 96, max_length=2048),
}
