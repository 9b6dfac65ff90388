"""The nine tasks of GLUE (Wang et al. 2019): their file formats, and how to find them in a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from qkv.common.errors import UsageError, unknown


@dataclass(frozen=True)
class GlueTask:
    """The file format and the metrics of a GLUE task.

    Attributes:
        recipe: the recipe for fine-tuning.
        text: the column of the text, or of the first text of a pair.
        second: the column of the second text.
        label: the column of the class or number.
        metrics: names of scores or of their parts: f1[1] is F1 of the class 1.
        dev: the files to score; the first is also the validation set.
    """

    recipe: str
    text: str
    second: str
    label: str
    metrics: tuple[str, ...] = ("accuracy",)
    dev: tuple[str, ...] = ("dev",)


TASKS: dict[str, GlueTask] = {
    "CoLA": GlueTask("classify", "#3", "", "#1", ("matthews",)),  # no header: source, label, mark, sentence
    "SST-2": GlueTask("classify", "sentence", "", "label"),
    "MRPC": GlueTask("pairs", "#1 String", "#2 String", "Quality", ("accuracy", "f1[1]")),
    "STS-B": GlueTask("regress", "sentence1", "sentence2", "score", ("pearson", "spearman")),
    "QQP": GlueTask("pairs", "question1", "question2", "is_duplicate", ("accuracy", "f1[1]")),
    "MNLI": GlueTask("pairs", "sentence1", "sentence2", "gold_label", dev=("dev_matched", "dev_mismatched")),
    "QNLI": GlueTask("pairs", "question", "sentence", "label"),
    "RTE": GlueTask("pairs", "sentence1", "sentence2", "label"),
    "WNLI": GlueTask("pairs", "sentence1", "sentence2", "label"),
}
ENDINGS = ("", ".gz", ".bz2", ".xz", ".zst")
Files = tuple[str, list[str]]  # training file, files to score


def find_tasks(folder: str, tasks: Sequence[str], say: Callable[[str], None]) -> dict[str, Files]:
    """Find the files of the given tasks, in the order of the table; incomplete tasks are reported and skipped."""
    asked = [_known(name) for name in tasks] or list(TASKS)
    if not Path(folder).is_dir():
        raise UsageError(f"{folder} is not a folder")
    there = {_plain(path.name): path for path in sorted(Path(folder).iterdir()) if path.is_dir()}
    found: dict[str, Files] = {}
    for name in (name for name in TASKS if name in asked):
        stems = ("train", *TASKS[name].dev)
        files = [_file(there[_plain(name)], stem) if _plain(name) in there else None for stem in stems]
        if all(files):
            found[name] = str(files[0]), [str(file) for file in files[1:]]
        elif tasks or any(files):
            missing = ", ".join(f"{stem}.tsv" for stem, file in zip(stems, files, strict=True) if file is None)
            say(f"skipping {name}: {folder} has no {name}/{missing}")
    if not found:
        raise UsageError(f"{folder} holds none of {', '.join(asked)}: each task is a folder with train.tsv and dev.tsv")
    return found


def _known(name: str) -> str:
    by_plain = {_plain(task): task for task in TASKS}
    if _plain(name) not in by_plain:
        raise unknown("GLUE task", name, TASKS)
    return by_plain[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").strip()


def _file(folder: Path, stem: str) -> Path | None:
    files = (folder / f"{stem}.tsv{ending}" for ending in ENDINGS)
    return next((file for file in files if file.is_file()), None)
