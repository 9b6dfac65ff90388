"""The convolutional encoder-decoder (Gehring et al. 2017), for comparison: gated convolutions mix the tokens of a side.

Attention remains between decoder and encoder, with several heads, and each layer has a feed-forward part, so that the
Transformer differs in one thing only: self-attention in the place of the convolution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from qkv.models.parts import build_heads
from qkv.models.skeleton import EncoderDecoder
from qkv.nn.attention import CrossAttention
from qkv.nn.block import Block
from qkv.nn.convolution_mixer import ConvolutionMixer
from qkv.nn.embeddings import TextEmbeddings
from qkv.nn.feedforward import FeedForward
from qkv.nn.heads import LanguageHead
from qkv.nn.init import initialise
from qkv.nn.norm import NORMS
from qkv.nn.stack import Stack


@dataclass(frozen=True, kw_only=True)
class ConvConfig:
    """Hyperparameters of a convolutional encoder-decoder. It has no position scheme: convolution knows the order.

    Attributes:
        vocab_size: V, of both sides.
        dim: D.
        num_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        num_heads: heads of the attention between decoder and encoder.
        ff_dim: width inside the feed-forward.
        width: how many tokens a convolution sees, an odd number.
        dropout: on embeddings and before each residual sum.
        start_id: the token that starts a target.
        end_id: the token that ends a sequence.
    """

    vocab_size: int = 10_000
    dim: int = 256
    num_layers: int = 4
    num_decoder_layers: int = 4
    num_heads: int = 4
    ff_dim: int = 1024
    width: int = 3
    dropout: float = 0.3
    start_id: int = 0
    end_id: int = 1

    heads = ("lm",)


def build(config: ConvConfig) -> EncoderDecoder:
    """Build a convolutional encoder-decoder; norms come first."""
    norm = partial(NORMS["layer"], config.dim, eps=1e-5)

    def block(decoder: bool) -> Block:
        return Block(
            attention=ConvolutionMixer(config.dim, width=config.width, causal=decoder),
            cross=CrossAttention(config.dim, config.num_heads) if decoder else None,
            feedforward=FeedForward(config.dim, config.ff_dim, activation="relu"),
            norms=[norm() for _ in range(3 if decoder else 2)],
            pre_norm=True,
            dropout=config.dropout,
        )

    def stack(num_layers: int, decoder: bool) -> Stack:
        return Stack([block(decoder) for _ in range(num_layers)], norm=norm())

    model = EncoderDecoder(
        embeddings=TextEmbeddings(config.vocab_size, config.dim, scale=config.dim**0.5, dropout=config.dropout),
        encoder=stack(config.num_layers, decoder=False),
        decoder=stack(config.num_decoder_layers, decoder=True),
        heads=build_heads(["lm"], {"lm": lambda: LanguageHead(config.dim, config.vocab_size, bias=True)}),
    )
    initialise(model, "transformer")
    return model


def _size(num_layers: int, dim: int, ff_dim: int, num_heads: int, **rest: object) -> ConvConfig:
    depth = {"num_layers": num_layers, "num_decoder_layers": num_layers}
    return ConvConfig(dim=dim, ff_dim=ff_dim, num_heads=num_heads, **depth, **rest)  # type: ignore[arg-type]


PRESETS = {
    "convs2s-tiny": _size(2, 128, 256, 4, vocab_size=8000, dropout=0.1),
    "convs2s-small": _size(4, 256, 512, 4),
}
