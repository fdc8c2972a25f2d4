"""Passwords and control characters in text that others see."""

import json

import pytest

from sb3_ext.common.clean_text import mask_command, mask_passwords, printable, say


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://me:PW@host/db", "postgresql://me:***@host/db"),
        (
            "--storage postgresql+psycopg2://me:PW@host:5432/db -n 9",
            "--storage postgresql+psycopg2://me:***@host:5432/db -n 9",
        ),
        ("redis://:PW@host", "redis://:***@host"),
        ("mysql://me:P@W@host/db", "mysql://me:***@host/db"),
        ("mysql://me:P/W:'PW\"PW#?@host/db", "mysql://me:***@host/db"),
        ("a://me:PW@x b://you:PW@y", "a://me:***@x b://you:***@y"),
        ("mysql://host/db?user=me&password=PW&ssl=1", "mysql://host/db?user=me&password=***&ssl=1"),
        ("https://host/?api_key=PW", "https://host/?api_key=***"),
    ],
)
def test_passwords_in_addresses_are_masked(text, masked):
    assert mask_passwords(text) == masked
    assert mask_passwords(masked) == masked


@pytest.mark.parametrize(
    "text", ["sqlite:///logs/s.db", "http://localhost:8080/x", "me@host", "lr:0.1 a@b", "ssh://git@host"]
)
def test_what_has_no_password_stays(text):
    assert mask_passwords(text) == text


@pytest.mark.parametrize("separators", [None, (",", ":")])
def test_a_masked_json_text_is_still_one(separators):
    written = {"a": ["x://me:PW@h", "me@h"], "b": 'y://me:P"W@h', "c": "z@h"}
    read = json.loads(mask_passwords(json.dumps(written, separators=separators)))
    assert read == {"a": ["x://me:***@h", "me@h"], "b": "y://me:***@h", "c": "z@h"}


def test_masking_takes_no_time_for_a_text_without_spaces():
    assert mask_passwords("://a:" * 200_000).startswith("://a:")


def test_only_characters_that_a_terminal_obeys_are_taken_out():
    assert printable("a\x1b[2J\x07\rb\x9b\u202e\ud800\n\tü…🙂") == "a[2Jb\n\tü…🙂"


@pytest.mark.parametrize(("verbose", "level", "is_shown"), [(0, 0, True), (0, 1, False), (1, 1, True), (1, 2, False)])
def test_a_message_is_shown_from_its_level_on_and_without_passwords(capsys, verbose, level, is_shown):
    say("at postgresql://me:secret@host/db", verbose, level)
    assert capsys.readouterr().out == ("at postgresql://me:***@host/db\n" if is_shown else "")


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        ("llm -m gpt --key PW --max-tokens 5", "llm -m gpt --key '***' --max-tokens 5"),
        ("llm --api-key=PW -t 'a b'", "llm '--api-key=***' -t 'a b'"),
        ("env OPENAI_API_KEY=PW llm", "env 'OPENAI_API_KEY=***' llm"),
        ("curl -H 'Authorization: Bearer PW' https://me:PW@host", "curl -H 'Authorization: ***' https://me:***@host"),
        ("ask --password 'P W'", "ask --password '***'"),
    ],
)
def test_passwords_and_keys_in_commands_are_masked(command, masked):
    assert mask_command(command) == masked
