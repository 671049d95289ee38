import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyknow import prompts
from dyknow.prompts import TemplateError, fill

NAMES = st.text(min_size=1)


@pytest.mark.parametrize(
    ("template", "mention", "office", "text", "subject"),
    [
        ("The current {office} is", "Italy", "President of Italy", "The current President of Italy is", (25, 30)),
        ("In {subject} the {office} is", "Rome", "Mayor of Rome", "In Rome the Mayor of Rome is", (3, 7)),
        ("{subject} is", '{office} "x"', None, '{office} "x" is', (0, 12)),  # a name is never a template
        ("The {office} is", "Oman", "Romania and Oman", "The Romania and Oman is", (16, 20)),  # not inside a word
        ("The {office} is", "A.C.", "ABC or A.C.", "The ABC or A.C. is", (11, 15)),  # a dot is a dot
    ],
)
def test_fill(template: str, mention: str, office: str | None, text: str, subject: tuple[int, int]) -> None:
    prompt = fill(template, mention, office)
    assert prompt.text == text
    assert prompt.subject == subject


def test_a_subject_that_the_office_does_not_name_is_refused() -> None:
    with pytest.raises(TemplateError, match="'France' stands nowhere in 'President of the French Republic'"):
        fill("The {office} is", "France", "President of the French Republic")


@given(mention=NAMES, office=NAMES, prefix=st.booleans())
def test_spans_hold_for_any_names(mention: str, office: str, prefix: bool) -> None:
    prompt = fill("Is {subject} the {office}?", mention, office, prefix=prefix)
    assert prompt.subject.of(prompt.text) == mention
    assert prompt.office is not None
    assert prompt.office.of(prompt.text) == office
    assert prompt.text == (prompts.PREFIX if prefix else "") + "Is " + mention + " the " + office + "?"


@pytest.mark.parametrize("template", ["", "no names", "{subject} {", "{}", "{subject} {subject}", "{0}", "{{subject}}"])
def test_a_template_that_cannot_be_filled_is_refused(template: str) -> None:
    with pytest.raises(TemplateError):
        prompts.check(template)
