"""The catalogue, shrunk: each preset keeps its kind (flavour, heads, positions, activation) and loses its size."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from qkv.common.batch import Images, Pairs, Tokens
from qkv.models import catalogue
from qkv.models.skeleton import Headed

SMALL = {
    "vocab_size": 37, "dim": 32, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "head_dim": 8, "ff_dim": 40,
    "max_length": 24, "channels": 3, "num_stages": 2, "image_size": 12, "patch_size": 4, "num_labels": 3,
    "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0,
}  # fmt: skip


def shrink(config: Any, **changes: Any) -> Any:
    names = {field.name for field in dataclasses.fields(config)}
    numbers = {key: value for key, value in SMALL.items() if key in names}
    if getattr(config, "head_dim", None) is None:
        numbers.pop("head_dim", None)  # dim / num_heads
    if getattr(config, "embedding_dim", None):
        numbers["embedding_dim"] = 16
    return catalogue.override(config, {**numbers, **changes})


def entries() -> dict[str, Any]:
    """Each different small config once, under the name of the first preset that gives it."""
    found: dict[str, Any] = {}
    for name, config in catalogue.PRESETS.items():
        small = shrink(config)
        if small not in found.values():
            found[name] = small
    return found


ENTRIES = entries()
# All heads of a family at once, so that contracts hold for each of them.
EVERY_HEAD = {
    "bert": shrink(
        catalogue.preset("bert-base"), heads=["pool", "mlm", "nsp", "classify", "regress", "tag", "span", "replaced"]
    ),
    "gpt": shrink(catalogue.preset("gpt2"), heads=["lm", "classify", "tag", "span"]),
    "gpt-grouped": shrink(catalogue.preset("gpt2"), num_kv_heads=2, window=3, norm="rms", activation="swiglu"),
    "t5": shrink(catalogue.preset("t5-small"), heads=["lm", "classify", "span"]),
    "vit": shrink(catalogue.preset("vit-b16"), heads=["pool", "classify"]),
    "vit-stem": shrink(catalogue.preset("vit-b16"), patches="conv", position="sinusoidal-2d"),
    "vit-windows": shrink(catalogue.preset("deit-b16"), num_layers=3, patches={"window": 2}),
    "convnet": shrink(catalogue.preset("convnet-mini"), heads=["pool", "classify"]),
    "rnn-gru": shrink(catalogue.preset("rnn-base"), cell="gru", score="general", num_layers=2),
    "transformer-pre": shrink(catalogue.preset("transformer-base"), pre_norm=True),
    "transformer-uneven": shrink(catalogue.preset("transformer-base"), num_decoder_heads=2, decoder_ff_dim=24),
    "bert-pruned": shrink(catalogue.preset("bert-base"), num_heads=3, head_dim=8, heads=["mlm", "classify"]),
    "transformer-pruned": shrink(catalogue.preset("transformer-base"), num_heads=3, head_dim=8),
    "gpt-pruned": shrink(catalogue.preset("gpt2"), num_heads=2, num_kv_heads=1, head_dim=8),
    "bert-own": shrink(catalogue.preset("bert-base"), heads=["mlm"], output="own"),
    "gpt-own": shrink(catalogue.preset("gpt2"), output="own"),
    "albert-groups": shrink(catalogue.preset("albert-base"), num_layers=3, num_groups=2, heads=["mlm"]),
}
MODELS = ENTRIES | EVERY_HEAD


def make(config: Any, *, train: bool = False) -> Headed:
    """Build with every weight drawn, so that zero biases and unit norms hide nothing."""
    torch.manual_seed(0)
    model = catalogue.build(config).train(train)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def sequences(lengths: list[int], seed: int = 0, vocab: int = 37) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(0, vocab, (n,), generator=draw).tolist() for n in lengths]


LENGTHS = [5, 1, 12, 7]


def batch_for(config: Any, rows: list[int] | None = None) -> Any:
    """A batch the model takes; `rows` picks some of its sequences."""
    rows = list(range(len(LENGTHS))) if rows is None else rows
    if catalogue.reads_images(config):
        pixels = torch.randn(
            len(LENGTHS), 3, config.image_size, config.image_size, generator=torch.Generator().manual_seed(1)
        )
        return Images(pixels[rows])
    source = sequences(LENGTHS)
    segments = (
        [[int(2 * i >= len(s)) for i in range(len(s))] for s in source]
        if getattr(config, "num_segments", 0) > 1
        else None
    )
    tokens = Tokens.of([source[r] for r in rows], segments=None if segments is None else [segments[r] for r in rows])
    if not pairs(config):
        return tokens
    target = sequences(LENGTHS[::-1], seed=1)
    return Pairs(tokens, Tokens.of([target[r] for r in rows]))


def pairs(config: Any) -> bool:
    return catalogue.family_of(config) in ("transformer", "t5", "conv_seq2seq", "seq2seq_rnn")


def outputs(model: Headed, batch: Any) -> dict[str, list[torch.Tensor]]:
    """Everything a model says of each sequence: its states and the scores of each head."""
    hidden = model(batch)
    found = {"states": hidden.split()}
    for name in model.heads:
        scores = model.logits(hidden, name)
        found[name] = hidden.layout.split(scores) if model.head(name).over == "rows" else list(scores)
    if model.pooler is not None:
        found["pool"] = list(model.pooler(hidden))
    return found


class Whole:
    """The same model, asked for everything."""

    def __init__(self, model: Headed) -> None:
        self.model = model

    def __call__(self, batch: Any) -> Any:
        return self.model(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def states_for(self, batch: Any, name: str | None = None) -> Any:
        return self.model(batch)

    def states_at(self, batch: Any, rows: torch.Tensor) -> torch.Tensor:
        return self.model(batch).states[rows]
