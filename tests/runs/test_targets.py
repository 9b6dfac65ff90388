"""The targets of `qkv shrink`: how they are read, and which model is chosen."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.runs.targets import MB, MS, POINTS, Row, Target, choose, frontier, parse_target, parse_targets

numbers = st.floats(0.01, 1000).map(lambda value: round(value, 2))
rows = st.lists(st.tuples(st.floats(-5, 50).map(lambda value: round(value, 1)), numbers, numbers), min_size=1).map(
    lambda several: [Row(f"row {number}", *one) for number, one in enumerate(several)]
)
targets = st.lists(st.builds(Target, st.sampled_from([MS, MB, POINTS]), numbers), min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("5 ms", Target(MS, 5)),
        ("5ms", Target(MS, 5)),
        (" 0.5 MS ", Target(MS, 0.5)),
        ("10 MB", Target(MB, 10)),
        (".5 mb", Target(MB, 0.5)),
        ("-1 point", Target(POINTS, 1)),
        ("- 1.5 points", Target(POINTS, 1.5)),
        ("-0 points", Target(POINTS, 0)),
    ],
)
def test_a_target(text: str, wanted: Target) -> None:
    assert parse_target(text) == wanted


@given(targets)
def test_a_target_is_written_as_it_is_read(several: list[Target]) -> None:
    for target in several:
        assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "ms",
        "5 s",
        "5 seconds",
        "1 point",
        "-5 ms",
        "-10 MB",
        "+1 point",
        "-1 %",
        "five ms",
        "1e3 ms",
        "5,5 ms",
    ],
)
def test_what_is_no_target_is_refused_with_the_allowed_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r'a target is such as "5 ms" .* "10 MB" .* "-1 point"'):
        parse_target(text)


@pytest.mark.parametrize("text", ["0 ms", "0.0 MB"])
def test_a_target_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"a target must be above 0, got '{text}'"):
        parse_target(text)


def test_a_target_is_needed() -> None:
    with pytest.raises(UsageError, match="name a target"):
        parse_targets([])


@given(rows, targets)
def test_what_is_chosen_meets_all_targets_if_anything_does(several: list[Row], wanted: list[Target]) -> None:
    found = choose(several, wanted)
    values = {MS: "milliseconds", MB: "megabytes", POINTS: "lost"}
    able = [row for row in several if all(getattr(row, values[target.unit]) <= target.limit for target in wanted)]
    assert found.row in (able or several)
    assert bool(found.missed) == (not able)
    if not able:
        broken = [target for target in wanted if getattr(found.row, values[target.unit]) > target.limit]
        assert list(found.missed) == broken


@given(rows, targets)
def test_no_other_model_that_meets_the_targets_is_better(several: list[Row], wanted: list[Target]) -> None:
    found = choose(several, wanted)
    if found.missed:
        return
    able = [row for row in several if not choose([row], wanted).missed]
    if all(target.unit == POINTS for target in wanted):
        fastest = min(row.milliseconds for row in able)
        assert found.row.milliseconds <= 1.05 * fastest
        assert all(found.row.megabytes <= row.megabytes for row in able if row.milliseconds <= 1.05 * fastest)
    else:
        assert found.row.lost == min(row.lost for row in able)
        assert found.row.milliseconds == min(row.milliseconds for row in able if row.lost == found.row.lost)


@given(rows, targets, st.randoms())
def test_the_order_of_the_models_does_not_matter(several: list[Row], wanted: list[Target], draw: object) -> None:
    again = list(several)
    draw.shuffle(again)  # type: ignore[attr-defined]
    first, second = choose(several, wanted), choose(again, wanted)
    assert (first.row.lost, first.row.milliseconds, first.row.megabytes, first.missed) == (
        second.row.lost,
        second.row.milliseconds,
        second.row.megabytes,
        second.missed,
    )


@given(rows, targets)
def test_the_nearest_is_never_worse_in_everything(several: list[Row], wanted: list[Target]) -> None:
    found = choose(several, wanted)
    if found.missed:
        mine = [target.excess(found.row) for target in wanted]
        for row in several:
            theirs = [target.excess(row) for target in wanted]
            assert not all(a < b for a, b in zip(theirs, mine, strict=True))


@given(rows, st.sampled_from([MS, MB]))
def test_the_frontier_has_the_models_that_nothing_beats(several: list[Row], unit: str) -> None:
    def cost(row: Row) -> float:
        return row.milliseconds if unit == MS else row.megabytes

    found = frontier(several, unit)
    assert [cost(row) for row in found] == sorted(cost(row) for row in found)
    for row, other in product(found, several):
        better = cost(other) <= cost(row) and other.lost <= row.lost
        assert not (better and (cost(other) < cost(row) or other.lost < row.lost))
    for row in several:  # the others are beaten or equalled by one on the frontier
        assert any(cost(one) <= cost(row) and one.lost <= row.lost for one in found)


def test_an_undefined_score_is_the_worst() -> None:
    bad, good = Row("bad", math.nan, 1.0, 1.0), Row("good", 30.0, 2.0, 2.0)
    assert choose([bad, good], [Target(MS, 5)]).row is good
    assert choose([bad], [Target(MS, 5)]).row is bad
    found = choose([bad], [Target(POINTS, 1)])
    assert found.missed[0].missed(bad) == "its score is undefined"
    assert frontier([bad, good], MS) == [good]


def test_how_far_the_nearest_is() -> None:
    row = Row("one", 1.5, 6.1, 12.0)
    said = [parse_target(text).missed(row) for text in ("5 ms", "10 MB", "-1 point")]
    assert said == ["1.1 ms too slow", "2 MB too large", "0.5 points below the limit"]
