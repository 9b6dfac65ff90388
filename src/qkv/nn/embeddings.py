"""Embeddings: from token ids or pixels to rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qkv.common.batch import Images, Tokens
from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged
from qkv.nn.convolution import CausalConvolution
from qkv.nn.dropout import Dropout
from qkv.nn.linear import Linear
from qkv.nn.positions import LearnedPosition, Place, SinusoidalPosition


class TextEmbeddings(nn.Module):
    """token · scale + segment + position, then norm and dropout. A narrower table is projected up (factorised).

    Args:
        vocab_size: V.
        dim: D.
        embedding_dim: width of the table if it is not D (Lan et al. 2020; Clark et al. 2020).
        num_segments: kinds of sentence (BERT's A and B), 0 for none.
        position: added to each row, or None.
        norm: applied to the sum, or None.
        scale: √D in Vaswani et al. 2017, section 3.4.
        dropout: applied last.
        conv_width: width of a causal convolution over the rows, the token itself included; 1 for none.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        embedding_dim: int | None = None,
        num_segments: int = 0,
        position: LearnedPosition | SinusoidalPosition | None = None,
        norm: nn.Module | None = None,
        scale: float = 1.0,
        dropout: float = 0.0,
        conv_width: int = 1,
    ) -> None:
        super().__init__()
        if conv_width < 1:
            raise UsageError(f"conv_width must be at least 1, got {conv_width}")
        width = embedding_dim or dim
        self.token = nn.Embedding(vocab_size, width)
        self.segment = nn.Embedding(num_segments, width) if num_segments else None
        self.position = position
        self.norm = norm or nn.Identity()
        self.dropout = Dropout(dropout)
        self.project = nn.Identity() if width == dim else Linear(width, dim)
        self.convolution = CausalConvolution(dim, dim, width=conv_width) if conv_width > 1 else None
        self.scale = scale

    @property
    def table(self) -> Tensor:
        """The token table, for heads tied to it. Shape: [V, E]."""
        return self.token.weight

    def forward(self, batch: Tokens, place: Place) -> Tensor:
        """Shape: [T] -> [T, D]."""
        return self.complete(self.token(batch.ids), batch, place)

    def complete(self, x: Tensor, batch: Tokens, place: Place) -> Tensor:
        """Add everything else to rows of the token table; `batch` holds all but the ids. Shape: [T, E] -> [T, D]."""
        if self.scale != 1.0:
            x = x * self.scale
        if self.segment is not None:
            x = x + (self.segment.weight[0] if batch.segments is None else self.segment(batch.segments))
        if self.position is not None:
            x = x + placed(self.position, place, batch.positions).to(x.dtype)
        x = self.project(self.dropout(self.norm(x)))
        if self.convolution is not None:
            x = x + self.dropout(self.convolution(x, batch.layout).relu())  # adds phrases to the words
        return x


class PatchEmbeddings(nn.Module):
    """A row for each square patch of an image, after a class token and, for DeiT, a distillation token."""

    def __init__(
        self,
        *,
        image_size: int,
        patch_size: int,
        channels: int,
        dim: int,
        position: LearnedPosition | SinusoidalPosition | None = None,
        stem: nn.Module | None = None,
        distilled: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.shape = (channels, image_size, image_size)
        self.project = stem or nn.Conv2d(channels, dim, patch_size, stride=patch_size)
        self.leading = nn.Parameter(torch.empty(2 if distilled else 1, dim))  # class token, then distillation token
        self.position = position
        self.dropout = Dropout(dropout)

    def forward(self, batch: Images) -> tuple[Tensor, Ragged]:
        """Shape: [B, C, height, width] -> [B · L, D] and its layout."""
        x_BLD = self.patches(batch)
        layout = Ragged.equal(len(x_BLD), x_BLD.shape[1], x_BLD.device)
        return self.complete(x_BLD, Place(layout, layout, layout.position_of)), layout

    def patches(self, batch: Images) -> Tensor:
        """Compute the rows of each image without positions. Shape: [B, C, height, width] -> [B, L, D]."""
        check_pixels(batch, self.shape)
        patches = self.project(batch.pixels).flatten(2).transpose(1, 2)
        leading = self.leading.unsqueeze(0).expand(patches.shape[0], -1, -1)
        return torch.cat([leading.to(patches.dtype), patches], dim=1)

    def complete(self, x_BLD: Tensor, place: Place) -> Tensor:
        """Add positions. Shape: [B, L, D] -> [B · L, D]."""
        x = x_BLD.flatten(0, 1)
        if self.position is not None:
            x = x + placed(self.position, place).to(x.dtype)
        return self.dropout(x)


def check_pixels(batch: object, shape: tuple[int, int, int]) -> None:
    """Raise an error for anything but images of this shape, as numbers."""
    if not isinstance(batch, Images):
        raise UsageError("this model takes images, not token ids")
    pixels = batch.pixels
    if pixels.dim() != 4 or tuple(pixels.shape[1:]) != shape:
        want = ", ".join(map(str, shape))
        raise UsageError(f"images must have the shape [batch, {want}], got {list(pixels.shape)}")
    if not pixels.is_floating_point():
        raise UsageError("images must be numbers, not bytes: the image processor of the model's folder makes them")


def placed(position: LearnedPosition | SinusoidalPosition, place: Place, given: Tensor | None = None) -> Tensor:
    """Compute the position embeddings of a pass. A sequence longer than the table is an error that names both numbers.

    Learned positions can be given instead of each token's place in its sequence.
    """
    length = place.keys.max_length
    if position.limit is not None and length > position.limit:
        raise UsageError(f"a sequence of {length} tokens is longer than the model's max_length of {position.limit}")
    moved = given is not None and isinstance(position, LearnedPosition)
    return position(given if moved else place.positions, length)
