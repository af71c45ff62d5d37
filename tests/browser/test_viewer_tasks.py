"""The ten questions that someone brings to the page, each answered by what is seen: roles, names and links. Each takes
at most four actions; the number is printed."""

import re

import pytest


class Person:
    """Does what a person can do, and counts it."""

    def __init__(self, page):
        self.page, self.actions = page.page, 0

    def click(self, role, name):
        self.actions += 1
        self.page.get_by_role(role, name=name).first.click()
        self.page.wait_for_selector('body[data-ready="true"]')

    def press(self, keys):
        self.actions += 1
        self.page.keyboard.press(keys)

    def type(self, text):
        self.actions += 1
        self.page.keyboard.type(text)

    def text(self, selector="#page"):
        return self.page.inner_text(selector)


@pytest.fixture
def person(shared_view, open_page):
    p = Person(open_page(shared_view.url).go("#/overview"))
    yield p
    print(f"{p.actions} actions")
    assert p.actions <= 4


def test_what_to_change_first_and_what_it_gives(person):
    verdict = person.text("#verdict")
    assert re.search(r"step takes [\d.]+ (ms|us|s)", verdict) or "nothing" in verdict.lower()
    person.click("link", "Findings")
    assert "what to do" in person.text() or "nothing" in person.text().lower()


def test_which_operator_takes_most(person):
    person.click("link", "Operators")
    person.click("button", "by shapes")
    assert person.page.locator("#operators-table tbody tr").count() > 0


def test_which_calls_have_a_name(person, until):
    person.click("link", "Timeline")
    person.page.wait_for_selector("#find")
    person.click("searchbox", "search names")
    person.type("aten")
    until(person.page, "document.querySelector('.timeline [role=status]').textContent !== ''")
    assert "hit" in person.text(".timeline [role=status]")


def test_why_a_step_is_longer(person):
    person.actions += 1
    person.page.locator("#steps-chart a.step").last.click()
    person.page.wait_for_selector("#aggregate-table")
    assert person.page.locator("#aggregate-table tbody tr").count() > 0


def test_what_was_lost(person):
    person.click("link", "Losses")
    assert person.text().strip()


def test_sending_the_view(person):
    person.click("link", "Timeline")
    person.page.wait_for_selector("#timeline")
    person.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    person.page.get_by_role("button", name="share", exact=True).click()
    person.click("button", "copy the command")
    command = person.page.evaluate("navigator.clipboard.readText()")
    assert command.startswith("tachograph view ") and command.endswith(f" --at '#{person.page.url.split('#')[1]}'")


def test_the_command_box_finds_pages_and_names(person, until):
    person.press("Control+k")
    person.type("kern")
    person.page.wait_for_selector("#command-list [role=option]")
    person.press("Enter")
    until(person.page, "location.hash.startsWith('#/kernels')")
