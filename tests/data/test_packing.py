import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.data.packing import Windows
from qkv.data.store import Store

LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=25).filter(lambda lengths: sum(lengths) > 0)


def numbered(folder, lengths):
    """Documents whose tokens count on from one to the next, and the document of each token."""
    stream = np.arange(sum(lengths))
    documents = np.split(stream, np.cumsum(lengths)[:-1])
    store = Store.write(folder, ({"ids": document} for document in documents), key="k")
    return store, np.repeat(np.arange(len(lengths)), lengths)


@given(LENGTHS, st.data())
def test_windows_are_the_stream_cut_at_documents(tmp_path_factory, lengths, data):
    store, document = numbered(tmp_path_factory.mktemp("packed"), lengths)
    windows = Windows(store, "ids", length=data.draw(st.integers(1, sum(lengths))))
    assert windows.count == sum(lengths) // windows.length
    pieces = [windows.window(number) for number in range(windows.total)]
    assert all(sum(map(len, window)) == windows.length for window in pieces[: windows.count])
    assert windows.total - windows.count == (sum(lengths) % windows.length > 0)
    stream = np.concatenate([piece for window in pieces for piece in window])
    assert stream.tolist() == list(range(sum(lengths)))
    for window in pieces:
        owners = [set(document[piece].tolist()) for piece in window]
        assert all(len(owner) == 1 for owner in owners)  # no piece is empty, none crosses documents
        assert all(one != two for one, two in itertools.pairwise(owners))  # none is cut without need


@given(LENGTHS, st.data())
def test_gathered_windows_are_the_windows(tmp_path_factory, lengths, data):
    store, _ = numbered(tmp_path_factory.mktemp("packed"), lengths)
    windows = Windows(store, "ids", length=data.draw(st.integers(1, sum(lengths))))
    numbers = data.draw(st.lists(st.integers(0, windows.total - 1), min_size=1, max_size=6))
    values, sizes = windows.gather([number * windows.length for number in numbers])
    expected = [piece.tolist() for number in numbers for piece in windows.window(number)]
    assert [piece.tolist() for piece in np.split(values, np.cumsum(sizes)[:-1])] == expected


def test_wrong_windows_are_named(tmp_path):
    store, _ = numbered(tmp_path, [5, 5])
    with pytest.raises(UsageError, match="no window begins at token 12: there are 10 tokens"):
        Windows(store, "ids", length=3).window(4)
    with pytest.raises(UsageError, match="a window must have at least 1 token, got 0"):
        Windows(store, "ids", length=0)
