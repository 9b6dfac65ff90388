"""What the compute process is started with."""

from __future__ import annotations

from dataclasses import dataclass

from qkv.serving.limits import Limits


@dataclass(frozen=True)
class Settings:
    """What the compute process is started with.

    Attributes:
        models: the folder of each model, by name.
        device: where to compute; None means CUDA if there is one.
        tokens: the most tokens of a request.
        new_tokens: the most tokens to generate for a text.
        threads: threads of a matrix product; None leaves that to PyTorch.
    """

    models: dict[str, str]
    device: str | None = None
    tokens: int = Limits.tokens
    new_tokens: int = Limits.new_tokens
    threads: int | None = None
