"""Whatever the bytes of a file are, a reader gives examples or one of our own errors."""

import warnings
from collections import deque
from random import Random

import pytest

from qkv.common.errors import QkvError
from tests.data.hostile import CASES, damaged


def outcome(case, folder, data):
    """Read a case whose first file is broken; return what went wrong in another way than ours."""
    for number, (name, content) in enumerate(case.files.items()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if number else data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            deque(case.read(folder), maxlen=0)
        except QkvError as error:
            return None if str(error) else "an empty message"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a Rust library is no Exception
            return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def attack(name, folder, seeds):
    """Break the file of one reader in many ways, each by its seed, so that a failure can be seen again."""
    case = CASES[name]
    good = next(iter(case.files.values()))
    found = {seed: outcome(case, folder, damaged(good, Random(f"{name} {seed}"))) for seed in seeds}
    assert not {seed: problem for seed, problem in found.items() if problem}


@pytest.mark.filterwarnings("ignore::qkv.data.encodings.Guessed")
@pytest.mark.parametrize("name", CASES)
def test_good_files_are_read(name, tmp_path):
    case = CASES[name]
    for file, content in case.files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    assert list(case.read(tmp_path))


@pytest.mark.parametrize("name", CASES)
def test_damaged_files_are_read_or_refused(name, tmp_path):
    attack(name, tmp_path, range(12))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_damaged_files_are_read_or_refused(name, tmp_path):
    attack(name, tmp_path, range(1000, 1400))
