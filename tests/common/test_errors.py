import pytest

from qkv.common.errors import QkvError, UsageError, unknown


def test_exit_codes_tell_failure_from_wrong_usage():
    assert QkvError("x").exit_code == 1
    assert UsageError("x").exit_code == 2
    assert isinstance(UsageError("x"), QkvError)


def test_unknown_names_the_value_the_nearest_and_everything_allowed():
    message = str(unknown("kernel", "egaer", ["eager", "sdpa"]))
    assert message == "unknown kernel 'egaer'; did you mean 'eager'? (allowed: eager, sdpa)"


def test_unknown_guesses_nothing_where_nothing_is_near():
    message = str(unknown("kernel", "zzzzzz", ["eager", "sdpa"]))
    assert "did you mean" not in message
    assert "'zzzzzz'" in message
    assert "eager, sdpa" in message


@pytest.mark.parametrize("value", [None, 7, 1.5])
def test_unknown_takes_values_that_are_no_text(value):
    assert repr(value) in str(unknown("thing", value, [1, 2]))
    assert isinstance(unknown("thing", value, {"a": 1}), UsageError)
