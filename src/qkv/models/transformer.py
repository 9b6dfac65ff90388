"""The Transformer (Vaswani et al. 2017): encoder and decoder, one table for source, target and output.

With the defaults this is what Marian trains and Hugging Face calls `marian`; with `pre_norm` it is `pegasus`.
"""

from __future__ import annotations

from dataclasses import dataclass

from qkv.models.parts import build_heads, build_stack, norm_of
from qkv.models.position import PositionConfig, added_position
from qkv.models.skeleton import EncoderDecoder
from qkv.nn.embeddings import TextEmbeddings
from qkv.nn.heads import LanguageHead
from qkv.nn.init import initialise
from qkv.nn.stack import Stack


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Hyperparameters of an encoder-decoder.

    Attributes:
        vocab_size: V, of both sides.
        dim: D.
        num_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        num_heads: attention heads of each.
        num_decoder_heads: attention heads of the decoder, where they are not `num_heads`.
        head_dim: width of a head where it is not dim / num_heads, as after pruning.
        ff_dim: width inside the feed-forward.
        decoder_ff_dim: that of the decoder, where it is not `ff_dim`.
        max_length: longest sequence of positions that know a limit.
        activation: of the feed-forward.
        pre_norm: norms before each part instead of after it.
        scaled: embeddings are multiplied by √D.
        dropout: on embeddings and before each residual sum.
        attention_dropout: on attention weights.
        activation_dropout: inside the feed-forward.
        position: how positions are encoded.
        start_id: the token that starts a target.
        end_id: the token that ends a sequence.
    """

    vocab_size: int = 37_000
    dim: int = 512
    num_layers: int = 6
    num_decoder_layers: int = 6
    num_heads: int = 8
    num_decoder_heads: int | None = None
    head_dim: int | None = None
    ff_dim: int = 2048
    decoder_ff_dim: int | None = None
    max_length: int = 512
    activation: str = "relu"
    pre_norm: bool = False
    scaled: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    position: PositionConfig = PositionConfig(name="sinusoidal")
    start_id: int = 0
    end_id: int = 1

    heads = ("lm",)


def build(config: TransformerConfig) -> EncoderDecoder:
    """Build an encoder-decoder."""

    def stack(num_layers: int, decoder: bool) -> Stack:
        heads = config.num_decoder_heads if decoder else None
        width = config.decoder_ff_dim if decoder else None
        return build_stack(
            position=config.position,
            max_length=config.max_length,
            attention={
                "dim": config.dim,
                "num_heads": config.num_heads if heads is None else heads,
                "head_dim": config.head_dim,
                "causal": decoder,
                "dropout": config.attention_dropout,
            },
            feedforward={
                "dim": config.dim,
                "ff_dim": config.ff_dim if width is None else width,
                "activation": config.activation,
                "dropout": config.activation_dropout,
            },
            norm=norm_of("layer", config.dim, 1e-5),
            num_layers=num_layers,
            pre_norm=config.pre_norm,
            cross=decoder,
            dropout=config.dropout,
        )

    model = EncoderDecoder(
        embeddings=TextEmbeddings(
            config.vocab_size,
            config.dim,
            position=added_position(config.position, max_length=config.max_length, dim=config.dim),
            scale=config.dim**0.5 if config.scaled else 1.0,
            dropout=config.dropout,
        ),
        encoder=stack(config.num_layers, decoder=False),
        decoder=stack(config.num_decoder_layers, decoder=True),
        heads=build_heads(["lm"], {"lm": lambda: LanguageHead(config.dim, config.vocab_size, bias=True)}),
    )
    initialise(model, "transformer")
    return model


def _size(num_layers: int, dim: int, ff_dim: int, num_heads: int, **rest: object) -> TransformerConfig:
    depth = {"num_layers": num_layers, "num_decoder_layers": num_layers}
    return TransformerConfig(dim=dim, ff_dim=ff_dim, num_heads=num_heads, **depth, **rest)  # type: ignore[arg-type]


PRESETS = {
    "transformer-tiny": _size(2, 128, 512, 4, vocab_size=8000),
    "transformer-mini": _size(4, 128, 256, 4, vocab_size=10_000, dropout=0.3),
    "transformer-small": _size(4, 256, 1024, 4, vocab_size=10_000, dropout=0.3),
    "transformer-base": _size(6, 512, 2048, 8),
    "transformer-big": _size(6, 1024, 4096, 16, dropout=0.3),
}
