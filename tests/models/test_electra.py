"""ELECTRA's pair shares what the paper shares, and each side is a model of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.models.electra import ElectraPair, build_pair
from tests.contracts.entries import sequences, shrink

GENERATOR = shrink(catalogue.preset("electra-small-generator"), dim=16)
DISCRIMINATOR = shrink(catalogue.preset("electra-small"))


def pair() -> ElectraPair:
    return build_pair(generator=GENERATOR, discriminator=DISCRIMINATOR)


def test_one_set_of_embeddings_serves_both() -> None:
    model: Any = pair()
    mine, owner = model.generator.embeddings, model.discriminator.embeddings
    assert model.generator.table is model.discriminator.table is owner.token.weight
    assert mine.position is owner.position
    assert mine.segment is owner.segment
    assert mine.norm is owner.norm
    assert mine.project is not owner.project
    alone = sum(p.numel() for p in catalogue.build(GENERATOR).parameters())
    shared = sum(p.numel() for n, p in owner.named_parameters() if not n.startswith("project"))
    both = alone + sum(p.numel() for p in catalogue.build(DISCRIMINATOR).parameters()) - shared
    assert sum(p.numel() for p in model.parameters()) == both


def test_the_paper_s_sizes_fit_together() -> None:
    for size in ("small", "base", "large"):
        with torch.device("meta"):
            build_pair(
                generator=catalogue.preset(f"electra-{size}-generator"),
                discriminator=catalogue.preset(f"electra-{size}"),
            )


def test_each_side_is_stored_by_itself(tmp_path: Any) -> None:
    model, batch = pair().eval(), Tokens.of(sequences([4, 7]))
    for side, config in ((model.generator, GENERATOR), (model.discriminator, DISCRIMINATOR)):
        write_folder(Folder(config, side), tmp_path / "model")
        again = read_folder(tmp_path / "model").model
        assert torch.equal(again(batch).states, side(batch).states)


def test_the_generator_follows_the_discriminators_table() -> None:
    model, batch = pair().eval(), Tokens.of(sequences([4]))
    before = model.generator.logits(model.generator(batch), "mlm")
    with torch.no_grad():
        model.discriminator.table.add_(torch.randn_like(model.discriminator.table))
    assert not torch.allclose(model.generator.logits(model.generator(batch), "mlm"), before)


@pytest.mark.parametrize(
    ("change", "says"),
    [({"embedding_dim": 8}, "embedding_dim must be 16, got 8"), ({"vocab_size": 38}, "vocab_size must be 37, got 38")],
)
def test_sides_that_do_not_fit(change: dict[str, int], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        build_pair(generator=catalogue.override(GENERATOR, change), discriminator=DISCRIMINATOR)
