"""JSON lists, folders of classes, fastText lines, CoNLL-U, several labels, and hints at what labels may be."""

import json
from collections import Counter

import pytest

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRows
from qkv.data.documents import documents
from qkv.data.encodings import Guessed
from qkv.data.examples import Classified, Tagged
from qkv.data.label_hints import label_hint
from qkv.data.labelled import classified, find_columns, has_label_lists, rated
from qkv.data.tagged import find_tag_columns, tagged
from tests.data.messages import message

CONLLU = """# sent_id = 1
# text = Dogs don't bark.
1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tbark\tbark\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
4.1\tloudly\t_\t_\t_\t_\t_\t_\t4:dep\t_
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

1\tNew York\tNew York\tPROPN\tNNP\t_\t0\troot\t_\t_
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        return name

    return write


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_list_of_objects(write, indent):
    rows = [{"text": "one\ntwo", "label": 1}, {"text": "] {", "label": "b"}]
    path = write("a.json", json.dumps(rows, indent=indent))
    lines = [1, 1] if indent is None else [2, 6]
    assert list(classified(path)) == [
        Classified("one\ntwo", None, ("1",), f"a.json:{lines[0]}"),
        Classified("] {", None, ("b",), f"a.json:{lines[1]}"),
    ]
    assert [document.text for document in documents(path)] == ["one\ntwo", "] {"]
    write("b.json", json.dumps([{"text": "a", "stars": 2}]))
    assert next(rated("b.json", label="stars")).score == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[{"text": "a", "label": 1},\n 7]', "a.json:2: not a JSON object; every row must be one object"),
        ('[{"text": "a", "label": 1}\n{"text": 1}]', "a.json:1: not JSON: a comma or ] is missing after this item"),
        ('[{"text": "a", "label": 1}]\nx', "a.json:1: not JSON: there is more text after the list"),
        ('[{"text": "a", "label": 1},\n{"text', "a.json:2: not JSON: Unterminated string"),
        ('[{"text": "a", "label": 1}, {}]', "a.json:1: the row has no column 'text' (its columns: )"),
    ],
)
def test_a_broken_json_list_is_said_with_its_line(write, text, reason):
    assert message(classified(write("a.json", text))).startswith(reason)


def test_an_empty_json_list_has_no_rows(write):
    assert message(classified(write("a.json", "[]"))) == "a.json contains no rows"


def test_a_folder_with_a_sub_folder_for_each_class(write, tmp_path):
    write("reviews/pos/2.txt", "fine\nfilm\n")
    write("reviews/pos/1.txt", "good")
    write("reviews/neg/a/1", "bad")
    write("reviews/neg/.hidden", "no")
    write("reviews/urls.txt", "no")
    write("reviews/_notes/1.txt", "no")
    assert list(classified("reviews", text=None, label=None)) == [
        Classified("bad", None, ("neg",), "reviews/neg/a/1:1"),
        Classified("good", None, ("pos",), "reviews/pos/1.txt:1"),
        Classified("fine\nfilm\n".rstrip(), None, ("pos",), "reviews/pos/2.txt:1"),
    ]
    assert str(find_columns("reviews")) == "text 'text', label 'label'"
    (tmp_path / "reviews/pos/1.txt").write_bytes(b"sch\xf6n")
    (tmp_path / "reviews/pos/2.txt").write_bytes(b"\xfcber")
    with pytest.warns(Guessed, match="reviews has files that are not UTF-8: they are read as cp1252") as said:
        assert [example.text for example in classified("reviews")] == ["bad", "schön", "über"]
    assert len({str(one.message) for one in said}) == 1
    write("flat/1.txt", "x")
    said = "flat/* matches the files in it, or give it a sub-folder of text files for each class"
    assert message(classified("flat")) == f"flat is a folder, not a file; {said}"
    write("reviews/pos/1.txt", " ")
    assert message(classified("reviews")) == "reviews/pos/1.txt:1: the text is empty"


def test_fasttext_lines(write):
    path = write("a.txt", "\n__label__pos good film\n__label__a __label__b  two __label__c\nplain\n")
    skipped = BadRows()
    assert list(classified(path, bad="skip", skipped=skipped)) == [
        Classified("good film", None, ("pos",), "a.txt:2"),
        Classified("two __label__c", None, ("a", "b"), "a.txt:3"),
    ]
    assert skipped.reasons == ["a.txt:4: the line must be __label__NAME and a text"]
    assert has_label_lists(path)
    assert not has_label_lists(write("b.txt", "__label__pos good\n"))
    assert next(classified(write("c.data", "__label__x y\n"), format="fasttext")).labels == ("x",)


def test_label_lists_are_found(write):
    rows = [{"text": "a", "label": ["x"]}, {"text": "b", "label": []}, {"text": "b", "label": ["x", "y"]}]
    assert has_label_lists(write("a.jsonl", "\n".join(map(json.dumps, rows))))
    assert not has_label_lists(write("b.jsonl", "\n".join(map(json.dumps, rows[:2]))))
    assert not has_label_lists(write("c.csv", "text,label\na,b\n"))


def test_conllu_reads_form_and_upos(write):
    path = write("a.conllu", CONLLU)
    assert list(tagged(path)) == [
        Tagged(("Dogs", "do", "n't", "bark", "."), ("NOUN", "AUX", "PART", "VERB", "PUNCT"), "a.conllu:3"),
        Tagged(("New York",), ("PROPN",), "a.conllu:11"),
    ]
    assert str(find_tag_columns(path)) == "words FORM, tags UPOS"
    assert next(tagged(write("a.txt", CONLLU))).tags[0] == "NOUN"  # told by its ten columns
    assert next(tagged(path, tag="xpos")).tags[:2] == ("NNS", "VBP")
    assert next(tagged(path, word="LEMMA", tag="#7")).words[2] == "not"
    assert str(find_tag_columns(path, tag="#7")) == "words FORM, tags DEPREL"
    assert message(tagged(path, tag="UPSO")).startswith("unknown column of a.conllu 'UPSO'; did you mean 'UPOS'?")
    assert message(tagged(write("b.conllu", "Ada\tNOUN\n"))) == (
        "b.conllu:1: the file has 2 columns, but data.text is #1 and data.label is #3"
    )


def test_tags_are_not_read_from_csv(write):
    path = write("a.csv", "word,tag\nAda,B-PER\n")
    with pytest.raises(UsageError, match=r"a\.csv: tags of words cannot be read from CSV; use CoNLL columns"):
        find_tag_columns(path)


def test_the_columns_of_a_tagged_file_are_said(write):
    path = write("a.conll", "EU NNP I-ORG\nsays VBZ O\n")
    assert str(find_tag_columns(path)) == "words #0, tags #2, the last of 3"
    assert str(find_tag_columns(path, tag="#1")) == "words #0, tags #1"
    assert next(tagged(path, tag="#1")).tags == ("NNP", "VBZ")
    write("a.jsonl", '{"tokens": ["a"], "pos_tags": ["X"], "w": ["b"]}')
    assert find_tag_columns("a.jsonl") == ("tokens", "pos_tags")
    assert next(tagged("a.jsonl", word="w", tag="pos_tags")).words == ("b",)
    write("b.jsonl", '{"tokens": ["a"], "x": ["X"]}')
    with pytest.raises(UsageError, match=r"cannot tell which column holds the tags; set data\.label to its name"):
        find_tag_columns("b.jsonl")


@pytest.mark.parametrize(
    ("labels", "hint"),
    [
        (["pos", "neg"], ""),
        (["1", "2", "3", "4", "5"], ""),
        ([str(number) for number in range(30)], "the 30 labels are numbers (0, 1, 2, ...): to predict a number, use"),
        (["1.5", "2", "3"], "the 3 labels are numbers (1.5, 2, 3, ...): to predict a number, use the recipe regress"),
        (
            ["a, b", "a", "b", "b, a"],
            "labels such as 'a, b' look like lists: if an example can have several labels",
        ),
        (["a;b", "a", "b", "b;a"], "labels such as 'a;b' look like lists: if an example can have several labels"),
        (["Paris, France", "Rome, Italy"], ""),
    ],
)
def test_labels_that_look_like_something_else(labels, hint):
    found = label_hint(Counter(labels), multi_label=False)
    assert found.startswith(hint) if hint else found == ""
    assert "separator" not in label_hint(Counter(labels), multi_label=True)
