"""Column names that are languages: codes (ISO 639, with a region or a script) and English names."""

from __future__ import annotations

import re

# Not "id", which in a table is the number of a row more often than Indonesian.
LANGUAGES = """
af afr afrikaans ar ara arabic bg bul bulgarian bn ben bengali ca cat catalan cs ces czech cy cym welsh da dan danish
de deu german el ell greek en eng english eo epo esperanto es spa spanish et est estonian eu eus basque fa fas persian
fi fin finnish fr fra french ga gle irish gl glg galician he heb hebrew hi hin hindi hr hrv croatian hu hun hungarian
hy hye armenian ind indonesian is isl icelandic it ita italian ja jpn japanese ka kat georgian kk kaz kazakh ko kor
korean la lat latin lt lit lithuanian lv lav latvian mk mkd macedonian mr mar marathi ms msa malay mt mlt maltese nb
nob nl nld dutch nn nno no nor norwegian pl pol polish pt por portuguese ro ron romanian ru rus russian sk slk slovak
sl slv slovenian sq sqi albanian sr srp serbian sv swe swedish sw swh swahili ta tam tamil te tel telugu th tha thai
tl tgl tagalog tr tur turkish uk ukr ukrainian ur urd urdu vi vie vietnamese zh zho cmn chinese
"""

KNOWN = frozenset(LANGUAGES.split())
BESIDE = "(?:text|sentence|source|target|src|tgt)"  # words next to the language: text_en, English sentence
REGION = r"(?:[-_](?:[a-z]{2}|[a-z]{4}|\d{3}))?"  # pt-BR, eng_Latn, es-419
SHAPE = re.compile(rf"(?:{BESIDE}[-_ ])?([a-z]+){REGION}(?:[-_ ]{BESIDE})?", re.IGNORECASE)


def is_language(name: str) -> bool:
    """Return whether a column is named after a language."""
    found = SHAPE.fullmatch(name.strip())
    return found is not None and found[1].lower() in KNOWN
