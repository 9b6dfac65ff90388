"""What a run writes down, and what it tells trackers: stand-ins for the packages, put where imports look."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from qkv.common.errors import QkvError, UsageError
from qkv.recipes.schema import read_recipe
from qkv.runs.run import check
from qkv.training.logging import Display, RunLog
from qkv.training.trackers import LogConfig, check_tracker


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


class StandIn(ModuleType):
    """Weights & Biases, as far as it is used: what was asked for and logged is kept."""

    class Error(Exception):
        pass

    def __init__(self, *, broken: tuple[str, ...] = ()) -> None:
        super().__init__("wandb")
        self.broken, self.asked, self.logged, self.ended = broken, list[Any](), list[Any](), 0

    def init(self, **asked: Any) -> StandIn:
        self.asked.append(asked)
        if asked["mode"] in self.broken:
            raise self.Error("no network")
        return self

    def log(self, values: dict[str, float], *, step: int) -> None:
        self.logged.append((step, values))

    def finish(self) -> None:
        self.ended += 1


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    found = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", found)
    return found


WANDB = LogConfig(track="wandb", project="mine")


def test_wandb_is_told_everything_and_stays_offline(wandb: StandIn, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('task = "classify"\n[optim]\nlr = 0.5\n')
    log = RunLog(tmp_path, WANDB)
    log.write(1, loss=2.0, rate=0.1)
    log.write(1, valid_loss=3.0)
    log.close()
    (asked,) = wandb.asked
    assert asked["mode"] == "offline"
    assert (asked["project"], asked["name"], asked["dir"]) == ("mine", tmp_path.name, str(tmp_path))
    assert asked["config"] == {"task": "classify", "optim": {"lr": 0.5}}
    assert wandb.logged == [(1, {"loss": 2.0, "rate": 0.1}), (1, {"valid_loss": 3.0})]
    assert wandb.ended == 1
    assert lines(tmp_path) == [{"step": 1, "loss": 2.0, "rate": 0.1}, {"step": 1, "valid_loss": 3.0}]


def test_resuming_goes_on_with_the_same_run_and_a_new_start_does_not(wandb: StandIn, tmp_path: Path) -> None:
    for step in (0, 5, 0):
        RunLog(tmp_path, WANDB, from_step=step).close()
    first, resumed, anew = (asked["id"] for asked in wandb.asked)
    assert first == resumed != anew
    assert {asked["resume"] for asked in wandb.asked} == {"allow"}


def test_without_a_network_the_numbers_stay_in_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = StandIn(broken=("online",))
    monkeypatch.setitem(sys.modules, "wandb", module)
    with pytest.warns(UserWarning, match=r"cannot be reached \(no network\): metrics are kept in .*wandb"):
        log = RunLog(tmp_path, LogConfig(track="wandb", online=True))
    log.write(3, loss=1.0)
    assert [asked["mode"] for asked in module.asked] == ["online", "offline"]
    assert len({asked["id"] for asked in module.asked}) == 1
    assert module.logged == [(3, {"loss": 1.0})]


def test_online_where_there_is_a_network(wandb: StandIn, tmp_path: Path) -> None:
    RunLog(tmp_path, LogConfig(track="wandb", online=True)).close()
    assert [asked["mode"] for asked in wandb.asked] == ["online"]


def test_a_tracker_that_cannot_begin_leaves_the_numbers_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "wandb", StandIn(broken=("online", "offline")))
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    with pytest.raises(QkvError, match="Weights & Biases cannot start a run: no network"):
        RunLog(tmp_path, WANDB)
    assert lines(tmp_path) == [{"step": 1, "loss": 2.0}]


@pytest.mark.parametrize("name", ["wandb", "tensorboard"])
def test_a_package_that_is_missing_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(QkvError, match=rf"log.track={name} needs the package {name}: pip install 'qkv\[track\]'"):
        check(read_recipe("phrasebook", [f"log.track={name}"]))


def test_an_unknown_tracker() -> None:
    with pytest.raises(UsageError, match="did you mean 'wandb'"):
        check(read_recipe("phrasebook", ["log.track=wandbb"]))
    check_tracker(LogConfig())


class Board:
    """TensorBoard's writer."""

    made: list[Board] = []  # noqa: RUF012

    def __init__(self, folder: str, purge_step: int | None) -> None:
        self.folder, self.purge_step, self.points, self.closed = folder, purge_step, list[Any](), False
        self.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.points.append((name, value, step))

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("track", ["auto", "tensorboard"])
def test_tensorboard_where_it_is_installed(track: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Board  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    log = RunLog(tmp_path, LogConfig(track=track), from_step=4)
    log.write(5, loss=1.5, rate=0.5)
    log.close()
    board = Board.made[-1]
    assert board.points == [("loss", 1.5, 5), ("rate", 0.5, 5)]
    assert (board.folder, board.purge_step, board.closed) == (str(tmp_path / "tensorboard"), 5, True)


@pytest.mark.parametrize("track", ["auto", "none"])
def test_no_tracker(track: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    log = RunLog(tmp_path, LogConfig(track=track))
    log.write(1, loss=1.0)
    log.close()
    assert log.tracker is None
    assert lines(tmp_path) == [{"step": 1, "loss": 1.0}]


def test_resuming_drops_lines_after_the_checkpoint_and_a_broken_one(tmp_path: Path) -> None:
    written = "".join(f'{{"step": {step}, "loss": 1.0}}\n' for step in (1, 2, 3)) + '{"step": 4, "lo'
    (tmp_path / "metrics.jsonl").write_text(written)
    RunLog(tmp_path, LogConfig(track="none"), from_step=2).write(3, loss=0.5)
    assert lines(tmp_path) == [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 1.0}, {"step": 3, "loss": 0.5}]


def test_where_there_is_no_terminal_a_line_is_said_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(3, 0, "training") as show:
        for step in (1, 2, 3):
            show.step(step, f"loss {step}")
        show.say("[done]")
    assert capsys.readouterr().err == "step 3/3  loss 3\n[done]\n"
