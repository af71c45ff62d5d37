"""Ten questions of a new reader: the search of the site, asked with the words of the question, finds the page among its
first three results. The ranking is that of searchtools.js of Sphinx: a page has each word, and titles count most."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INDEX = ROOT / "build" / "site" / "searchindex.js"
TITLE, TITLE_PART, TERM, TERM_PART = 15, 7, 5, 2  # docs/search_scorer.js
TITLE_FACTOR = 4

# The question's words → the page with the long answer.
QUESTIONS = {
    "install tachograph": "docs/install",
    "record a program": "docs/run",
    "read one trace": "docs/tutorials/gpu_trace",
    "compare two traces": "docs/tutorials/slow_script",
    "which rank is slow": "docs/tutorials/slow_rank",
    "requests of my server slow": "docs/tutorials/slow_requests",
    "what uses the memory": "docs/tutorials/memory_peak",
    "record my own event": "docs/tutorials/own_events",
    "ask my own question": "docs/tutorials/own_events",
    "remove it": "docs/install",
}


@pytest.fixture(scope="module")
def index():
    if not INDEX.exists():
        pytest.skip("no site: `make docs` builds it")
    return json.loads(INDEX.read_text(encoding="utf-8").removeprefix("Search.setIndex(").removesuffix(")"))


def pages(found):
    return set(found if isinstance(found, list) else [found])


def stems(word, terms):
    """What the index may have of a word: itself, or without an ending."""
    forms = [word, *(word.removesuffix(end) for end in ("s", "es", "ed", "ing", "e", "y"))]
    forms += [form + "i" for form in forms if word.endswith("y")]
    return [form for form in dict.fromkeys(forms) if form in terms]


def search(index, words):
    """Page → score, of the pages that have every word."""
    every = None
    scores = {}
    for word in words:
        of_word = {}
        for terms, whole, part in (("titleterms", TITLE, TITLE_PART), ("terms", TERM, TERM_PART)):
            table = index[terms]
            for stem in stems(word, table):
                for page in pages(table[stem]):
                    of_word[page] = max(of_word.get(page, 0), whole)
            if len(word) > 2 and not stems(word, table):
                for term in (term for term in table if word in term):
                    for page in pages(table[term]):
                        of_word[page] = max(of_word.get(page, 0), part)
        every = set(of_word) if every is None else every & set(of_word)
        for page, score in of_word.items():
            scores[page] = max(scores.get(page, 0), score)
    return {page: scores[page] for page in every or ()}


def of_titles(index, query):
    """Page → score, of the pages with a section whose title has the query as at least half of it."""
    scores = {}
    for title, sections in index["alltitles"].items():
        if query in title.lower() and len(query) >= len(title) / 2:
            for page, _ in sections:
                scores[page] = max(scores.get(page, 0), TITLE_FACTOR * round(TITLE * len(query) / len(title)))
    return scores


@pytest.mark.parametrize("question", QUESTIONS)
def test_search_finds_the_page(index, question):
    """Among the first three results is the page, or the short answer that links to it."""
    data = (INDEX.parent / "_static" / "language_data.js").read_text(encoding="utf-8")
    stop = set(re.findall(r'"(\w+)"', re.search(r"stopwords = new Set\((.*?)\)", data, flags=re.S).group(1)))
    found = search(index, [word for word in re.findall(r"\w+", question) if word not in stop])
    for page, score in of_titles(index, question).items():
        found[page] = max(found.get(page, 0), score)
    ranked = sorted(found, key=lambda page: (-found[page], index["titles"][page].lower()))
    names = [index["docnames"][page] for page in ranked][:3]
    assert names and {QUESTIONS[question], "docs/questions"} & set(names), names


def test_each_short_answer_links_to_its_page():
    text = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    links = re.findall(r"^## .*\n\n(?:.*\n)*?.*→ \[[^]]+\]\(([^)#]+)\.md", text, flags=re.M)
    assert [f"docs/{link}" for link in links] == list(QUESTIONS.values())
