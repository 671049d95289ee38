import dataclasses
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dyknow.models import Options, preset, release_date, settings
from dyknow.models.presets import _CHECKS, presets, suggest
from kg.errors import DataError

TABLE = presets()


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return path


# --- the table


def test_every_model_of_the_study_has_a_row_and_every_setting_a_source() -> None:
    names = (
        "gpt2-xl gpt-j t5-3b flan-t5-xl llama-2-7b llama-2-7b-chat falcon-7b falcon-7b-instruct bloom-7b vicuna-7b-v1.5 "
        "mistral-7b-v0.1 mistral-7b-instruct-v0.1 mixtral-8x7b mixtral-8x7b-instruct olmo-1b openelm llama-3 smollm2"
    )
    assert [name for name in names.split() if preset(name) is None] == []
    for row in TABLE.values():
        assert row.year and set(row.sources) == {
            key
            for key in (
                "released",
                "year",
                "style",
                "template",
                "bos",
                "prefix",
                "dtype",
                "stop",
                "remote_code",
                "kind",
            )
            if getattr(row, key) != next(field.default for field in dataclasses.fields(row) if field.name == key)
        }


def test_no_name_stands_for_two_models() -> None:
    names = [name.casefold() for row in TABLE.values() for name in set(map(str.casefold, row.names))]
    assert sorted(names) == sorted(set(names))


def test_what_came_out_on_a_day_came_out_in_its_year() -> None:
    # The study dates ChatGPT by its first version and was itself asked with a later one.
    later = {row.name for row in TABLE.values() if row.released and row.released.year != row.year}
    assert later == {"gpt-3.5-turbo-1106"}


def test_the_study_s_asterisks_are_the_prefixes() -> None:
    asterisks = (
        "falcon-instruct vicuna llama-2-chat mistral-instruct mixtral-instruct gpt-3.5-turbo-1106 gpt-4-1106-preview"
    )
    ours = {row.name for row in TABLE.values() if row.prefix} - {"meta-llama/Meta-Llama-3-8B-Instruct"}
    assert ours == {found.name for found in map(preset, asterisks.split()) if found}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("GPT2-XL", "openai-community/gpt2-xl"),
        ("local:mistral", "mistralai/Mistral-7B-v0.1"),
        ("openai:gpt-4-1106-preview", "gpt-4-1106-preview"),
        ("some/folder/vicuna-7b-v1.5", "lmsys/vicuna-7b-v1.5"),
        ("gpt2", None),
        ("somebody/gpt2-xl-tuned", None),
    ],
)
def test_a_preset_is_found_by_any_of_its_names(name: str, found: str | None) -> None:
    row = preset(name)
    assert (row.name if row else None) == found


def test_release_dates_come_with_their_source() -> None:
    assert release_date("llama-3") == (date(2024, 4, 18), "model card: 18 April 2024")
    assert release_date("falcon") == release_date("no-such-model") == (None, None)


# --- suggestions


def test_a_preset_fills_in_what_options_leave_open() -> None:
    taken = suggest(Options(), preset("falcon-instruct"))
    assert (taken.style, taken.template, taken.bos, taken.stop) == (
        "instruct", "User: {question}\nAssistant:", False, ("\nUser",)
    )  # fmt: skip
    assert taken.dtype is None  # whoever loads it knows whether it runs on a CPU


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"style": "completion"}, {"template": None, "stop": None}),
        ({"bos": True}, {"style": "instruct"}),
        ({"template": "{question}?"}, {"style": "instruct", "stop": None}),
        ({"stop": ("\n",)}, {"style": "instruct", "template": "User: {question}\nAssistant:"}),
    ],
)
def test_options_go_before_a_preset(given: dict[str, Any], changed: dict[str, Any]) -> None:
    taken = suggest(Options(**given), preset("falcon-instruct"))
    assert {key: getattr(taken, key) for key in given | changed} == given | changed


def test_without_a_preset_options_stay() -> None:
    assert suggest(Options(seed=3), None) == Options(seed=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('["a/b"]\nstyle = "chat"\n', "line 2: the setting 'style' has no source"),
        ('["a/b"]\nstil = "chat"\n', "line 2: 'stil' is no key"),
        ('["a/b"]\nsource = { style = "me" }\n', "'style' is no key of the sources"),
    ],
)
def test_a_table_with_a_fault_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        presets(written(tmp_path, text))


# --- a file of settings


def test_every_option_can_be_given_in_a_file() -> None:
    assert set(_CHECKS) == {field.name for field in dataclasses.fields(Options)}


def test_a_file_of_settings_says_how_and_about_what(tmp_path: Path) -> None:
    text = (
        'style = "instruct"\ntemplate = "Q: {question}\\nA:"\nstop = "\\nQ"\nprefix = true\nreleased = 2024-05-01\n'
        'title = "Mine"\nyear = 2024\nbos = false\ntemperature = 1\nbase_urls = ["http://a", "http://b"]\n'
    )
    found = settings(written(tmp_path, text))
    assert found[1:] == (True, "Mine", 2024, date(2024, 5, 1))
    options = Options(**found.options)
    assert (options.style, options.stop, options.bos, options.temperature) == ("instruct", ("\nQ",), False, 1)
    assert options.base_urls == ("http://a", "http://b")
    assert settings(written(tmp_path, "")) == ({}, None, None, None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('stile = "chat"', "line 1: 'stile' is no key"),
        ('\nstyle = "chatty"', "line 2: 'style' is 'chatty'"),
        ('template = "Q:"', "no place for the question"),
        ("bos = 1", "no true or false"),
        ("seed = true", "no whole number"),
        ("temperature = -1", "no number from 0 on"),
        ("max_new_tokens = 0", "no number from 1 on"),
        ("released = 2024-05-01T10:00:00", "no day"),
        ("stop = [1]", "no list of texts"),
        ('stop = [""]', "no list of texts"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        settings(written(tmp_path, text))
