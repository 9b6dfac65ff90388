"""BERT (Devlin et al. 2019) and its variants: one builder, a few numbers.

roberta, xlm-roberta   no segments, other tokenizers (Liu et al. 2019; Conneau et al. 2020)
distilbert             half the layers, no segments, a ReLU pooler (Sanh et al. 2019)
albert                 layers share their weights, a narrow token table (Lan et al. 2020)
electra                a narrow token table; see electra.py (Clark et al. 2020)
roformer               rotary positions (Su et al. 2021)
"""

from __future__ import annotations

from dataclasses import dataclass

from qkv.common.errors import UsageError, unknown
from qkv.models.parts import build_heads, build_stack, is_tied, norm_of
from qkv.models.position import PositionConfig, added_position
from qkv.models.skeleton import Transformer
from qkv.nn.embeddings import TextEmbeddings
from qkv.nn.heads import MaskedHead, Pooler, RegressionHead, ReplacedHead, SequenceHead, SpanHead, TokenHead
from qkv.nn.init import initialise

# The activation of each variant's pooler, a dense layer over the first token; None for the feed-forward's.
POOLERS: dict[str, str | None] = {
    "bert": "tanh",
    "roberta": "tanh",
    "xlm-roberta": "tanh",
    "albert": "tanh",
    "distilbert": "relu",
    "electra": "gelu",
    "roformer": None,
}


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Hyperparameters of a BERT.

    Attributes:
        vocab_size: V.
        dim: D.
        num_layers: layers.
        num_heads: attention heads of each.
        head_dim: width of a head where it is not dim / num_heads, as after pruning.
        ff_dim: width inside the feed-forward.
        max_length: longest sequence.
        num_segments: number of segments (sentences A and B), 0 for none.
        embedding_dim: width of the token table if it is not `dim`.
        activation: activation of the feed-forward.
        norm_eps: epsilon of the norms.
        dropout: on embeddings and before each residual sum.
        attention_dropout: on attention weights.
        position: how positions are encoded.
        heads: any of pool, mlm, nsp, classify, regress, tag, span, replaced.
        num_labels: labels of classify and tag.
        flavour: bert, roberta, xlm-roberta, distilbert, albert, electra, roformer.
        conv_width: tokens that a convolution over the embeddings sees, itself and those before it; 1 for none.
        output: tied (scores of hidden tokens use the token table) or own (a table of their own).
        num_groups: groups of layers that share their weights, in albert.
        pad_id: the token that other libraries fill batches with.
    """

    vocab_size: int = 30_522
    dim: int = 768
    num_layers: int = 12
    num_heads: int = 12
    head_dim: int | None = None
    ff_dim: int = 3072
    max_length: int = 512
    num_segments: int = 2
    embedding_dim: int | None = None
    activation: str = "gelu"
    norm_eps: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1
    position: PositionConfig = PositionConfig(name="learned")
    heads: tuple[str, ...] = ("pool",)
    num_labels: int = 2
    flavour: str = "bert"
    conv_width: int = 1
    output: str = "tied"
    num_groups: int = 1
    pad_id: int = 0


def build(config: BertConfig) -> Transformer:
    """Build a BERT or one of its variants."""
    if config.flavour not in POOLERS:
        raise unknown("flavour", config.flavour, POOLERS)
    eps = config.norm_eps
    width = config.embedding_dim or config.dim
    embeddings = TextEmbeddings(
        config.vocab_size,
        config.dim,
        embedding_dim=width,
        num_segments=config.num_segments,
        position=added_position(config.position, max_length=config.max_length, dim=width),
        norm=norm_of("layer", width, eps)(),
        dropout=config.dropout,
        conv_width=config.conv_width,
    )
    stack = build_stack(
        position=config.position,
        max_length=config.max_length,
        attention={
            "dim": config.dim,
            "num_heads": config.num_heads,
            "head_dim": config.head_dim,
            "dropout": config.attention_dropout,
        },
        feedforward={"dim": config.dim, "ff_dim": config.ff_dim, "activation": config.activation},
        norm=norm_of("layer", config.dim, eps),
        num_layers=config.num_layers,
        num_blocks=_groups(config) if config.flavour == "albert" else None,  # the layers of a group share weights
        dropout=config.dropout,
    )
    # The masked-token heads of RoBERTa and ELECTRA keep GELU whatever the encoder uses.
    tied = is_tied(config.output)
    act = config.activation if config.flavour in ("bert", "albert", "distilbert", "roformer") else "gelu"
    heads = build_heads(
        config.heads,
        {
            "mlm": lambda: MaskedHead(
                config.dim,
                config.vocab_size,
                embedding_dim=width,
                activation=act,
                norm=norm_of("layer", width, eps)(),
                tied=tied,
            ),
            "nsp": lambda: SequenceHead(config.dim, 2),
            "classify": lambda: SequenceHead(config.dim, config.num_labels),
            "regress": lambda: RegressionHead(config.dim),
            "tag": lambda: TokenHead(config.dim, config.num_labels, dropout=config.dropout),
            "span": lambda: SpanHead(config.dim),
            "replaced": lambda: ReplacedHead(config.dim, activation=config.activation),
        },
    )
    pooled = "pool" in config.heads or any(head.over == "sequences" for head in heads.values())
    pooling = POOLERS[config.flavour] or config.activation
    pooler = Pooler(config.dim, activation=pooling, dropout=config.dropout) if pooled else None
    model = Transformer(embeddings=embeddings, stack=stack, heads=heads, pooler=pooler)
    initialise(model, "bert")
    return model


def _groups(config: BertConfig) -> int:
    if not 1 <= config.num_groups <= config.num_layers:
        raise UsageError(f"num_groups must be from 1 to the {config.num_layers} layers, got {config.num_groups}")
    return config.num_groups


def _size(num_layers: int, dim: int, **rest: object) -> BertConfig:
    return BertConfig(num_layers=num_layers, dim=dim, num_heads=dim // 64, ff_dim=4 * dim, **rest)  # type: ignore[arg-type]


PRESETS = {
    "bert-tiny": _size(2, 128),
    "bert-mini": _size(4, 256),
    "bert-small": _size(4, 512),
    "bert-medium": _size(8, 512),
    "bert-base": _size(12, 768),
    "bert-large": _size(24, 1024),
    "roberta-base": _size(12, 768, vocab_size=50_265, num_segments=1, norm_eps=1e-5, flavour="roberta", pad_id=1),
    "roberta-large": _size(24, 1024, vocab_size=50_265, num_segments=1, norm_eps=1e-5, flavour="roberta", pad_id=1),
    "xlm-roberta-base": _size(
        12, 768, vocab_size=250_002, num_segments=1, norm_eps=1e-5, flavour="xlm-roberta", pad_id=1,
    ),
    "distilbert-base": _size(6, 768, num_segments=0, heads=(), flavour="distilbert"),
    "albert-base": _size(
        12, 768, vocab_size=30_000, embedding_dim=128, activation="gelu_tanh", dropout=0.0, attention_dropout=0.0,
        flavour="albert",
    ),
    "bert-small-rotary": _size(4, 512, position=PositionConfig(name="rotary"), heads=(), flavour="roformer"),
}  # fmt: skip
