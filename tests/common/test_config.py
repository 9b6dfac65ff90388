import json
from dataclasses import dataclass, field

import pytest

from qkv.common.config import from_dict, override, to_dict
from qkv.common.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Inner:
    name: str = "plain"
    base: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Outer:
    size: int
    rate: float = 0.5
    flag: bool = False
    limit: int | None = None
    words: tuple[str, ...] = ("a",)
    inner: Inner = Inner()


def test_plain_values_become_the_config():
    config = from_dict(Outer, {"size": 3, "rate": 2, "flag": True, "limit": None, "words": ["x", "y"]})
    assert config == Outer(size=3, rate=2.0, flag=True, words=("x", "y"))
    assert isinstance(config.rate, float)  # a whole number is a number


def test_one_value_is_a_list_of_one():
    assert from_dict(Outer, {"size": 1, "words": "x"}).words == ("x",)


def test_a_config_survives_json():
    config = Outer(size=3, limit=4, words=("x", "y"), inner=Inner(name="other", base=2.5))
    assert from_dict(Outer, json.loads(json.dumps(to_dict(config)))) == config


@pytest.mark.parametrize("inner", ["other", {"name": "other"}, Inner(name="other")])
def test_a_nested_config_is_given_by_name_by_dict_or_whole(inner):
    assert from_dict(Outer, {"size": 1, "inner": inner}).inner == Inner(name="other", base=10.0)


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(UsageError, match=r"'sise'; did you mean 'size'\?"):
        from_dict(Outer, {"sise": 1})


def test_an_unknown_nested_key_is_named_with_its_path_and_the_nearest():
    with pytest.raises(UsageError, match=r"inner\.bass.*did you mean '(inner\.)?base'\?"):
        from_dict(Outer, {"size": 1, "inner": {"bass": 2.0}})


def test_a_missing_key_is_named():
    with pytest.raises(UsageError, match="size"):
        from_dict(Outer, {})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("size", "three", "a whole number"),
        ("size", 1.5, "a whole number"),
        ("size", True, "a whole number"),
        ("size", None, "a whole number"),
        ("rate", "fast", "a number"),
        ("rate", False, "a number"),
        ("flag", 1, "true or false"),
        ("limit", "none", "a whole number"),
        ("words", 3, "a string"),
    ],
)
def test_a_wrong_type_names_key_wanted_and_got(key, value, said):
    with pytest.raises(UsageError) as caught:
        from_dict(Outer, {"size": 1, key: value})
    assert str(caught.value).startswith(key)
    assert said in str(caught.value)
    assert repr(value) in str(caught.value)


def test_a_wrong_type_in_a_list_is_named():
    with pytest.raises(UsageError, match=r"words takes a string, got 3"):
        from_dict(Outer, {"size": 1, "words": ["abc", 3]})


def test_a_wrong_nested_type_is_named_with_its_path():
    with pytest.raises(UsageError, match=r"inner\.base takes a number, got 'x'"):
        from_dict(Outer, {"size": 1, "inner": {"base": "x"}})


def test_override_changes_some_keys_and_leaves_the_old_config_alone():
    old = Outer(size=1, words=("x",))
    new = override(old, {"size": 2, "limit": 5})
    assert new == Outer(size=2, limit=5, words=("x",))
    assert old.size == 1


def test_a_dotted_key_reaches_into_a_nested_config():
    new = override(Outer(size=1, inner=Inner(name="kept")), {"inner.base": 3})
    assert new.inner == Inner(name="kept", base=3.0)


def test_two_dotted_keys_into_one_config_are_both_kept():
    assert override(Outer(size=1), {"inner.base": 3, "inner.name": "x"}).inner == Inner(name="x", base=3.0)


def test_a_nested_config_by_name_and_a_dotted_key_of_it_together():
    new = override(Outer(size=1), {"inner": "other", "inner.base": 3.0})
    assert new.inner == Inner(name="other", base=3.0)


@pytest.mark.parametrize(("key", "near"), [("inner.bass", "base"), ("sizes", "size"), ("iner.base", "inner")])
def test_override_names_what_it_does_not_know(key, near):
    with pytest.raises(UsageError) as caught:
        override(Outer(size=1), {key: 1})
    assert key.rpartition(".")[2] in str(caught.value)
    assert near in str(caught.value)


def test_a_dotted_key_into_a_plain_value_is_an_error():
    with pytest.raises(UsageError, match=r"size\.x"):
        override(Outer(size=1), {"size.x": 1})


@dataclass(frozen=True, kw_only=True)
class Open:
    """A config with a table of anything."""

    table: dict[str, object] = field(default_factory=dict)


def test_dotted_keys_into_a_table_of_anything_become_tables():
    found = override(Open(table={"mix": {"a": {"x": 1}}}), {"table.mix.a.y": 2, "table.mix.b.x": 3, "table.z": 4})
    assert found.table == {"mix": {"a": {"x": 1, "y": 2}, "b": {"x": 3}}, "z": 4}


def test_dotted_keys_are_taken_in_their_order():
    keys = [f"table.{name}" for name in "hgfedcba"]
    assert list(override(Open(), dict.fromkeys(keys, 1)).table) == list("hgfedcba")


def test_values_that_are_too_large_are_refused_in_a_short_sentence():
    with pytest.raises(UsageError, match=r"^rate takes a number of at most 63 bits, got one of 1329 bits$"):
        from_dict(Outer, {"size": 1, "rate": int("9" * 400)})
    with pytest.raises(UsageError, match=r"^size takes a whole number, got 'x{196}\.\.\.$"):
        from_dict(Outer, {"size": "x" * 5000})
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(UsageError, match=r"^size takes a whole number, got a list that is too large to print$"):
        from_dict(Outer, {"size": deep})
