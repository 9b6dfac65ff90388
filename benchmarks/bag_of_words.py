"""A bag-of-words baseline for classifiers trained from scratch.

    python benchmarks/bag_of_words.py stsa.binary.train.gz stsa.binary.dev.gz stsa.binary.test.gz

Logistic regression on word counts (scikit-learn). Counts or presence, and the strength of the penalty, are chosen on
the second file; the third is scored once. The files contain `label text` lines.
"""

from __future__ import annotations

import argparse
import itertools

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from qkv.data.labelled import classified

PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def read(path: str) -> tuple[list[str], list[str]]:
    examples = list(classified([path], text=None, label=None, format="label-first"))
    return [example.text for example in examples], [example.labels[0] for example in examples]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=3, metavar="TRAIN DEV TEST")
    (texts, labels), dev, test = map(read, parser.parse_args().files)
    tried = []
    for binary, strength in itertools.product((False, True), PENALTIES):
        words = CountVectorizer(binary=binary, token_pattern=r"\S+")
        model = LogisticRegression(C=strength, max_iter=2000).fit(words.fit_transform(texts), labels)
        tried.append((model.score(words.transform(dev[0]), dev[1]), binary, strength, words, model))
    score, binary, strength, words, model = max(tried, key=lambda one: one[0])
    print(f"chosen on dev ({score:.2%}): {'presence' if binary else 'counts'}, C = {strength:g}")
    print(f"test {model.score(words.transform(test[0]), test[1]):.2%} of {len(test[0])}")


if __name__ == "__main__":
    main()
