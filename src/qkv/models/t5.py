"""T5 (Raffel et al. 2020): norm first, one bucketed position bias per stack, no biases, unscaled attention."""

from __future__ import annotations

from dataclasses import dataclass

from qkv.common.errors import unknown
from qkv.models.parts import build_heads, build_stack, norm_of
from qkv.models.position import PositionConfig, added_position
from qkv.models.skeleton import EncoderDecoder
from qkv.nn.embeddings import TextEmbeddings
from qkv.nn.heads import LanguageHead, Pooler, SequenceHead, SpanHead, TokenHead
from qkv.nn.init import initialise
from qkv.nn.stack import Stack


@dataclass(frozen=True, kw_only=True)
class T5Config:
    """Hyperparameters of a T5.

    Attributes:
        vocab_size: V.
        dim: D.
        num_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder; 0 for the encoder alone.
        num_heads: attention heads of each.
        head_dim: H, not tied to dim / num_heads.
        ff_dim: width inside the feed-forward.
        max_length: longest sequence, for position schemes that have a limit.
        activation: relu in T5 1.0, geglu in T5 1.1.
        norm_eps: epsilon of the norms.
        dropout: on embeddings, before each residual sum, in the feed-forward and on attention weights.
        position: how positions are encoded.
        output: scaled (the token table, states divided by √D: 1.0), own (a table of its own: 1.1), or tied (unscaled).
        heads: any of lm, classify, tag, span.
        num_labels: labels of classify and tag.
        end_id: the token that ends a sequence; decoding starts with token 0.
    """

    vocab_size: int = 32_128
    dim: int = 512
    num_layers: int = 6
    num_decoder_layers: int = 6
    num_heads: int = 8
    head_dim: int = 64
    ff_dim: int = 2048
    max_length: int = 512
    activation: str = "relu"
    norm_eps: float = 1e-6
    dropout: float = 0.1
    position: PositionConfig = PositionConfig(name="bucketed", max_distance=128)
    output: str = "scaled"
    heads: tuple[str, ...] = ("lm",)
    num_labels: int = 2
    end_id: int = 1

    start_id = 0  # T5 starts a target with its padding token


def build(config: T5Config) -> EncoderDecoder:
    """Build a T5."""

    def stack(num_layers: int, decoder: bool) -> Stack:
        heads = {"num_heads": config.num_heads, "head_dim": config.head_dim, "dropout": config.dropout}
        return build_stack(
            position=config.position,
            max_length=config.max_length,
            attention={"dim": config.dim, "bias": False, "scale": 1.0, "causal": decoder, **heads},
            feedforward={
                "dim": config.dim,
                "ff_dim": config.ff_dim,
                "activation": config.activation,
                "bias": False,
                "dropout": config.dropout,
            },
            norm=norm_of("rms", config.dim, config.norm_eps),
            num_layers=num_layers,
            pre_norm=True,
            cross=decoder,
            dropout=config.dropout,
        )

    if config.output not in ("scaled", "own", "tied"):
        raise unknown("output", config.output, ["scaled", "own", "tied"])
    tied, scale = config.output != "own", config.dim**-0.5 if config.output == "scaled" else 1.0
    model = EncoderDecoder(
        embeddings=TextEmbeddings(
            config.vocab_size,
            config.dim,
            position=added_position(config.position, max_length=config.max_length, dim=config.dim),
            dropout=config.dropout,
        ),
        encoder=stack(config.num_layers, decoder=False),
        decoder=stack(config.num_decoder_layers, decoder=True) if config.num_decoder_layers else None,
        heads=build_heads(
            config.heads,
            {
                "lm": lambda: LanguageHead(config.dim, config.vocab_size, tied=tied, scale=scale),
                "classify": lambda: SequenceHead(config.dim, config.num_labels),
                "tag": lambda: TokenHead(config.dim, config.num_labels, dropout=config.dropout),
                "span": lambda: SpanHead(config.dim),
            },
        ),
        pooler=Pooler(config.dim, row="last", activation="tanh") if "classify" in config.heads else None,
    )
    initialise(model, "t5")
    return model


def _size(num_layers: int, dim: int, num_heads: int, ff_dim: int, **rest: object) -> T5Config:
    depth = {"num_layers": num_layers, "num_decoder_layers": num_layers}
    return T5Config(dim=dim, num_heads=num_heads, ff_dim=ff_dim, **depth, **rest)  # type: ignore[arg-type]


def _size11(num_layers: int, dim: int, num_heads: int, ff_dim: int) -> T5Config:
    return _size(num_layers, dim, num_heads, ff_dim, activation="geglu", output="own")


PRESETS = {
    "t5-small": _size(6, 512, 8, 2048),
    "t5-base": _size(12, 768, 12, 3072),
    "t5-large": _size(24, 1024, 16, 4096),
    "t5-3b": _size(24, 1024, 32, 16_384, head_dim=128),
    "t5-11b": _size(24, 1024, 128, 65_536, head_dim=128),
    "t5-1.1-small": _size11(8, 512, 6, 1024),
    "t5-1.1-base": _size11(12, 768, 12, 2048),
    "t5-1.1-large": _size11(24, 1024, 16, 2816),
    "t5-1.1-xl": _size11(24, 2048, 32, 5120),
    "t5-1.1-xxl": _size11(24, 4096, 64, 10_240),
}
