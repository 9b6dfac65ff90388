"""When a reader gives no answer: the threshold of its folder, chosen on the validation questions as SQuAD 2.0 does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from qkv.checkpoints.folder import folder_files, read_folder
from qkv.common import disk
from qkv.common.progress import Bar
from qkv.data.examples import Question
from qkv.evaluation.answers import best_threshold
from qkv.predict import Model
from qkv.predict.answer import doubts
from qkv.recipes.schema import Say
from qkv.tasks.base import chunks

CHUNK = 64  # questions that are answered at a time


def choose_threshold(folder: Path, asked: Sequence[Question], *, device: str | None, say: Say) -> None:
    """Choose by the highest F1, and write it into the run's folder and that of its best validation."""
    if len({bool(question.answers) for question in asked}) < 2:
        say("when to give no answer is not chosen: validation has not both questions with and without one")
        return
    for place in (folder, folder / "best"):
        if not (place / "config.json").is_file():
            continue
        found = read_folder(place)
        with Bar("choosing when there is no answer", total=len(asked)) as bar:
            threshold = best_threshold(bar.each(_answered(Model(found, device=device), asked)))
        config = folder_files(replace(found, no_answer_threshold=threshold))["config.json"]
        disk.update_folder(place, {"config.json": config})
        if place == folder:
            say(f"no answer is given where its score less that of the best span is above {threshold:.2f}")


def _answered(model: Model, asked: Sequence[Question]) -> Iterator[tuple[str, float, list[str]]]:
    for chunk in chunks(asked, CHUNK):
        found = doubts(model, [one.question for one in chunk], [one.context for one in chunk])
        for (said, doubt), one in zip(found, chunk, strict=True):
            yield said, doubt, [answer.text for answer in one.answers]
