"""The command line as a shell sees it: standard output, standard error, exit code."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import typer

import qkv as package
from qkv.cli.main import app
from qkv.cli.panels import PANELS
from qkv.version import __version__


@pytest.fixture
def qkv(shell):
    return shell


def assert_sentence(result, code, *said):
    """One line on standard error that starts with the program's name; nothing on standard output."""
    assert result.code == code
    assert result.out == ""
    assert result.err.startswith("qkv: ")
    assert result.err.count("\n") == 1
    assert result.err.endswith("\n")
    for part in said:
        assert part in result.err


@pytest.fixture(scope="module")
def model(bert_folder):
    return package.load(bert_folder, device="cpu")


@pytest.fixture
def damaged(bert_folder, tmp_path):
    folder = shutil.copytree(bert_folder, tmp_path / "damaged")
    (folder / "model.safetensors").write_bytes(b"too short")
    return folder


COMMANDS = sorted(typer.main.get_command(app).commands)


def test_version(qkv):
    result = qkv("--version")
    assert (result.code, result.out, result.err) == (0, f"qkv {__version__}\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_begins_with_the_command(qkv, command):
    result = qkv(command, "--help")
    assert result.code == 0
    assert "Example" in result.out
    assert f"qkv {command} " in result.out.partition("Example")[2]


def test_help_names_every_command(qkv):
    result = qkv("--help")
    assert result.code == 0
    assert all(command in result.out for command in COMMANDS)
    assert "Usage" in qkv().out + qkv().err


def test_every_command_has_one_panel(qkv):
    named = [name for names in PANELS.values() for name in names]
    assert sorted(named) == COMMANDS
    said = qkv("--help").out
    assert all(panel in said for panel in PANELS)


def test_info_of_a_preset(qkv):
    result = qkv("info", "bert-tiny")
    assert (result.code, result.err) == (0, "")
    facts = dict(line.split(maxsplit=1) for line in result.out.splitlines())
    assert facts["model"] == "bert-tiny"
    assert facts["parameters"] == "4,385,920"  # Google's number for it is 4.4 M


def test_info_as_json_is_what_python_says(qkv, bert_folder):
    for name in ("gpt2", str(bert_folder)):
        result = qkv("info", name, "--json")
        assert (result.code, result.err) == (0, "")
        assert result.out.count("\n") == 1
        assert json.loads(result.out) == package.info(name)


def test_info_of_a_folder_as_text(qkv, bert_folder):
    result = qkv("info", bert_folder)
    assert result.code == 0
    assert "WordPiece, 18 tokens" in result.out


def test_info_of_nothing_is_wrong_usage(qkv):
    assert_sentence(qkv("info", "bert-tiyn"), 2, "did you mean 'bert-tiny'")


def test_info_of_a_name_too_long_for_a_file_is_wrong_usage(qkv):
    assert_sentence(qkv("info", "x" * 300), 2)


def test_info_of_a_damaged_folder_fails(qkv, damaged):
    assert_sentence(qkv("info", damaged), 1, str(damaged), "damaged")


def test_info_of_a_folder_that_is_no_model_fails(qkv, tmp_path):
    assert_sentence(qkv("info", tmp_path), 1, "config.json")


def test_embed_prints_one_line_of_numbers_a_text(qkv, bert_folder, model):
    texts = ["the cat", "dogs run"]
    result = qkv("embed", bert_folder, *texts, "--device", "cpu")
    assert (result.code, result.err) == (0, "")
    found = [[float(x) for x in line.split()] for line in result.out.splitlines()]
    np.testing.assert_allclose(found, model.embed(texts), atol=1e-5)


def test_embed_as_json(qkv, bert_folder, model):
    texts = ["the cat", "caf\u00e9"]
    options = ("--json", "--normalize", "--pooling", "first")
    result = qkv("embed", bert_folder, *texts, *options)
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [line["text"] for line in found] == texts
    wanted = model.embed(texts, normalize=True, pooling="first")
    np.testing.assert_allclose([line["embedding"] for line in found], wanted, atol=1e-5)


def test_embed_reads_standard_input(qkv, bert_folder, model):
    result = qkv("embed", bert_folder, "-", "--json", stdin="the cat\n\ndogs caf\u00e9\r\nlast".encode())
    assert (result.code, result.err) == (0, "")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [line["text"] for line in found] == ["the cat", "", "dogs caf\u00e9", "last"]
    np.testing.assert_allclose(found[0]["embedding"], model.embed(["the cat"])[0], atol=1e-5)


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x0c", "\x1e"])
def test_only_a_newline_ends_a_line_of_standard_input(qkv, bert_folder, odd):
    text = f"the{odd}cat"
    result = qkv("embed", bert_folder, "-", "--json", stdin=f"{text}\ndogs\n".encode())
    assert [json.loads(line)["text"] for line in result.out.split("\n") if line] == [text, "dogs"]


def test_standard_input_that_is_not_utf8_says_the_byte(qkv, bert_folder):
    given = "é\n".encode() + b"the c\xe9t\n"
    result = qkv("embed", bert_folder, "-", stdin=given)
    assert_sentence(result, 1, "standard input:2", "byte 0xe9 at offset 8", "UTF-8")


def test_empty_standard_input_is_wrong_usage(qkv, bert_folder):
    assert_sentence(qkv("embed", bert_folder, "-"), 2, "empty")


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize("number", [1, 1500])
def test_texts_that_are_cut_are_said_once_on_standard_error(qkv, bert_folder, number):
    result = qkv("embed", bert_folder, "-", stdin=b"the cat\n" + number * (20 * b"the cat " + b"\n"))
    assert result.code == 0
    assert len(result.out.splitlines()) == number + 1
    assert result.err.splitlines()[-1] == f"qkv: {number:,} of the texts were cut to 12 tokens"
    assert result.err.count("were cut") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--pooling", "median"), "mean, first"), (("--device", "gpu"), "device")],
)
def test_embed_with_a_wrong_option_value(qkv, bert_folder, options, said):
    assert_sentence(qkv("embed", bert_folder, "the cat", *options), 2, said)


def test_embed_with_what_is_no_folder(qkv, tmp_path):
    assert_sentence(qkv("embed", tmp_path / "nowhere", "the cat"), 2, "nowhere")


def test_embed_with_a_damaged_folder_fails(qkv, damaged):
    assert_sentence(qkv("embed", damaged, "the cat"), 1, "damaged")


def test_embed_without_a_tokenizer(qkv, bert_folder, tmp_path):
    folder = shutil.copytree(bert_folder, tmp_path / "mute")
    (folder / "tokenizer.json").unlink()
    assert_sentence(qkv("embed", folder, "the cat"), 2, "tokenizer")


def test_a_damaged_tokenizer_is_one_line(qkv, bert_folder, tmp_path):
    folder = shutil.copytree(bert_folder, tmp_path / "broken")
    (folder / "tokenizer.json").write_text('{\n"version": \n')
    assert_sentence(qkv("embed", folder, "the cat"), 1, "tokenizer")


def test_similar(qkv, bert_folder, model):
    result = qkv("similar", bert_folder, "the cat", "dogs run")
    assert (result.code, result.err) == (0, "")
    assert float(result.out) == pytest.approx(model.similar("the cat", "dogs run"), abs=1e-3)


def test_similar_as_json(qkv, bert_folder):
    found = json.loads(qkv("similar", bert_folder, "the cat", "the cat", "--json").out)
    assert found == {"a": "the cat", "b": "the cat", "cosine": pytest.approx(1.0, abs=1e-5)}


def test_similar_with_what_is_no_folder(qkv):
    assert_sentence(qkv("similar", "nowhere", "a", "b"), 2, "nowhere")


@pytest.mark.parametrize(
    "arguments",
    [("info",), ("embed", "folder"), ("similar", "folder", "a"), ("fly",), ("info", "bert-tiny", "--fast")],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_says_so_on_standard_error(qkv, arguments):
    result = qkv(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err


def shell(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False, **options
    )


def test_python_m_qkv_is_the_command():
    result = shell("-m", "qkv", "info", "nonsense")
    assert_sentence(SimpleNamespace(code=result.returncode, out=result.stdout, err=result.stderr), 2, "nonsense")


def test_help_does_not_import_torch():
    code = "import sys; sys.argv = ['qkv', '--version']; from qkv.cli.main import run\ntry: run()\nfinally: "
    result = shell("-c", code + "sys.stderr.write(str('torch' in sys.modules))", env={**os.environ})
    assert result.stdout == f"qkv {__version__}\n"
    assert result.stderr == "False"
