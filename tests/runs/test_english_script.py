"""benchmarks/english.py from texts to a packed encoder that fine-tuning starts from, with tiny sizes."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import qkv
from qkv.predict import loading
from qkv.training.logging import read_metrics

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "english.py"
TINY = "model.set={dim=32,num_layers=2,num_heads=2,ff_dim=64,embedding_dim=16}"
QUICK = ("train.tokens=512", "train.workers=1", "train.validate_every=100", "optim.lr=5e-3")
NAMES = ("the cat", "the dog", "a man", "a girl", "the old king")
VERBS = ("sees", "likes", "follows", "finds", "leaves")


def sentence(draw: random.Random) -> str:
    subject, thing, owner = draw.choices(NAMES, k=3)
    return f"{subject.capitalize()} {draw.choice(VERBS)} {thing} in {owner}'s house."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the names of the real corpora: novels in a zip archive, articles in bzip2, pairs with scores."""
    draw, place = random.Random(0), tmp_path / "data"
    for name in ("english-novels", "wiki-enwik8-clean", "glue/STS-B"):
        (place / name).mkdir(parents=True)

    def paragraph() -> str:
        return " ".join(sentence(draw) for _ in range(4))

    with zipfile.ZipFile(place / "english-novels" / "100_english_novels.zip", "w", zipfile.ZIP_BZIP2) as archive:
        for number in range(2):
            archive.writestr(f"Author_{number}_1900.txt", "\n\n".join(paragraph() for _ in range(150)))
    articles = "\n\n".join("\n".join(paragraph() for _ in range(3)) for _ in range(101))
    (place / "wiki-enwik8-clean" / "wiki.txt.bz2").write_bytes(bz2.compress(articles.encode()))
    rows = [(sentence(draw), sentence(draw), i % 6) for i in range(12)]
    dev = "".join(f"{a}\t{b}\t{score}\n" for a, b, score in [("sentence1", "sentence2", "score"), *rows])
    test = "".join(f"-\t-\t-\t-\t{score}\t{a}\t{b}\n" for a, b, score in rows)
    for name, text in (("dev.tsv.gz", dev), ("sts-test.labelled.tsv.gz", test)):
        (place / "glue" / "STS-B" / name).write_bytes(gzip.compress(text.encode()))
    return place


@pytest.mark.slow
def test_every_stage_works_and_fine_tuning_starts_from_the_result(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, packed = tmp_path / "work", tmp_path / "pretrained" / "english"

    def run(part: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        known = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, str(SCRIPT), part, "--work", str(work), *arguments]
        return subprocess.run(command, env=known, capture_output=True, text=True, timeout=300, check=False)

    def done(part: str, *arguments: str) -> str:
        result = run(part, *arguments)
        assert result.returncode == 0, result.stderr[-2000:]
        return result.stdout

    small = (TINY, "tokenizer.vocab_size=150", "tokenizer.min_frequency=2")
    done("prepare", "--data", str(data), "--workers", "1", "--set", *small)
    pairs = (work / "train-pairs.tsv").read_text().splitlines()
    assert len(pairs) > 1000
    assert all(line.count("\t") == 1 for line in pairs)
    assert "plan.json is missing: run the part `plan`" in run("pretrain", "--set", *QUICK).stderr
    done("plan", "--timed", "20", "--plan", "0.1", "--set", *QUICK)
    assert json.loads((work / "plan.json").read_text()) == {"steps": 20}  # at least as many as were timed
    planned = ("--set", *QUICK, "train.steps=100")
    stopped = run("pretrain", "--seconds", "0.01", *planned)  # before the first step, so that nothing is half-done
    assert stopped.returncode != 0
    assert "done after 100 steps" in done("pretrain", *planned)
    assert done("pretrain", *planned) == ""  # nothing is left to do
    assert "done after 100 steps" in done("sentences", *planned, "data.mix.masked.max_length=64")
    assert "MB" in done("pack", "--out", str(packed))
    done("score", "--data", str(data), "--models", str(packed), "--out", str(tmp_path / "scores.json"))
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert {part: found["pairs"] for part, found in scores[str(packed)]["sts-b"].items()} == {"dev": 12, "test": 12}

    monkeypatch.setattr(loading, "PRETRAINED", packed.parent)
    model = qkv.load("english", device="cpu")
    assert {"fill", "embed", "similar"} <= set(model.verbs)
    assert model.sentence.declared
    assert len(model.fill(["The cat [MASK] the dog."])[0][0]) == 5
    # Both heads and the vectors have learned: guessing would give log(150) = 5, log(2) = 0.7, and one pair in ten.
    first, second = (read_metrics(work / stage)[-1] for stage in ("electra", "sentences"))
    assert first["valid_fill"] < 3.5
    assert first["valid_replaced"] < 0.5
    assert second["valid_masked/mlm"] < 3.5
    assert second["valid_embeddings/match.correct"] > 0.4
    assert model.similar("The cat sees the dog.", "The cat sees the dog.") == pytest.approx(1.0, abs=1e-5)
    draw = random.Random(1)
    texts = dict.fromkeys(sentence(draw) for _ in range(80))
    rows = [f"{text}\t{'king' if 'king' in text else 'none'}" for text in texts]
    (tmp_path / "a.tsv").write_text("\n".join(["text\tlabel", *rows]))
    said: list[str] = []
    tuned = qkv.finetune(train=tmp_path / "a.tsv", device="cpu", say=said.append, epochs=2, **{"train.workers": 1})
    assert "starting from the built-in encoder english; set model.init=FOLDER or hf:OWNER/NAME for another" in said
    assert len(tuned.classify(["The old king finds a girl."])) == 1
