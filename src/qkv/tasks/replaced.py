"""ELECTRA: a small generator fills masked tokens, and the discriminator predicts which tokens were replaced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from qkv.checkpoints.folder import Folder, read_folder
from qkv.common.errors import UsageError
from qkv.models.bert import BertConfig
from qkv.models.electra import ElectraPair, build_pair
from qkv.objectives.replaced import ReplacedToken
from qkv.tasks.base import Context
from qkv.tasks.language import Hiding
from qkv.tasks.masked import MaskedTask
from qkv.tasks.start import transfer

GENERATOR = "generator"  # its folder, inside the folder of the discriminator


@dataclass(frozen=True, kw_only=True)
class ReplacedSettings(Hiding):
    """Settings of masking and of the generator.

    Attributes:
        generator_share: the width of the generator relative to the discriminator.
        weight: λ, the weight of the discriminator's loss, which is much smaller than the generator's loss.
        temperature: the sampling temperature of the generator. Near 0, it always fills in its best guess.
        keep_every: every n-th masked token stays masked for the discriminator, which learns to fill it with a head of
            its own. 0 leaves no masks, as in the paper; the discriminator then cannot `fill`.
    """

    generator_share: float = 0.25
    weight: float = 50.0
    temperature: float = 1.0
    keep_every: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.generator_share <= 1:
            raise UsageError(f"objective.generator_share must be above 0 and at most 1, got {self.generator_share:g}")


class ReplacedTask(MaskedTask):
    """Both models train together and share their embeddings (Clark et al. 2020), on batches of masked tokens."""

    Settings: ClassVar[type[Any]] = ReplacedSettings
    heads: ClassVar[tuple[str, ...]] = ("replaced",)
    mixable: ClassVar[bool] = False

    def model_heads(self) -> tuple[str, ...]:
        """Include the head that fills masks if some stay in the discriminator's input."""
        return (*self.heads, "mlm") if self.settings.keep_every else self.heads

    def build(self, config: Any) -> ElectraPair:
        """Build both models: the generator has the discriminator's depth and `generator_share` of its width."""
        if not isinstance(config, BertConfig):
            raise UsageError("ELECTRA needs a model of the family bert, for example the preset electra-small")
        return build_pair(generator=self.generator(config), discriminator=config)

    def check_model(self, model: nn.Module, context: Context) -> None:
        """Do nothing: the pair always has the heads it needs."""

    def load_start(self, model: nn.Module, start: Folder, path: Path, context: Context) -> None:
        """Start the discriminator from `model.init`, and the generator from its subfolder if there is one."""
        assert isinstance(model, ElectraPair)
        transfer(model.discriminator, start)
        beside = path / GENERATOR
        if (beside / "config.json").is_file():
            transfer(model.generator, read_folder(beside))
        else:
            context.say(f"{path} has no generator: the generator starts with random weights")

    def saved(self, model: nn.Module, config: Any, context: Context) -> dict[str, tuple[Any, Any]]:
        """Save the discriminator as the model, and the generator in a subfolder."""
        del context
        assert isinstance(model, ElectraPair)
        return {"": (config, model.discriminator), GENERATOR: (self.generator(config), model.generator)}

    def objective(self) -> Any:
        """Return both losses; the discriminator's has the weight 50 by default."""
        asked = self.settings
        return ReplacedToken(weight=asked.weight, temperature=asked.temperature, keep_every=asked.keep_every)

    def generator(self, config: BertConfig) -> BertConfig:
        """Return the config of a narrower generator that shares the embeddings."""
        heads = max(1, round(config.num_heads * self.settings.generator_share))
        width = (config.head_dim or config.dim // config.num_heads) * heads
        ff_dim = max(1, round(config.ff_dim * width / config.dim))
        table = config.embedding_dim or config.dim
        return replace(config, dim=width, num_heads=heads, ff_dim=ff_dim, embedding_dim=table, heads=("mlm",))
