"""A run folder that somebody else made, or broke: its report is a report, and says what could not be read."""

import io
import json
import os
import shutil
import zipfile

import numpy as np
import pytest

from sb3_ext.cli.main import main

FILES = {
    "run.json": json.dumps({"state": "finished", "steps": 64, "total_timesteps": 64, "seconds": 1.5}),
    "alerts.json": json.dumps([{"id": "mine", "count": 2, "share": 0.5, "first_step": 1, "last_step": 9}]),
    "progress.json": "".join(
        json.dumps({"time/total_timesteps": 16 * n, "rollout/ep_rew_mean": n, "eval/mean_reward": n}) + "\n"
        for n in range(1, 5)
    ),
    "CartPole-v1/args.yml": "algo: ppo_ext\nenv: CartPole-v1\n",
    "CartPole-v1/config.yml": "n_timesteps: 64\n",
    "CartPole-v1/command.txt": "python -m rl_zoo3.train",
    "0.monitor.csv": '#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n20,20,0.1\n22,22,0.2\n',
}
#: Nine lists of nine lists of …
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


def arrays(**columns):
    file = io.BytesIO()
    np.savez(file, **columns)
    return file.getvalue()


def zipped(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def report_of(folder, capsys, **changes):
    """What ``sb3-ext report`` prints of a healthy run with other files."""
    for name, content in {**FILES, **changes}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["review", str(folder)]) == 0  # it is made from the same parts
    capsys.readouterr()
    code = main(["report", "--print", str(folder)])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return printed.out


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("CartPole-v1/args.yml", "[" * 10_000, "args.yml can't be read: maximum recursion depth"),
        ("CartPole-v1/config.yml", "- " * 10_000, "config.yml can't be read: maximum recursion depth"),
        ("CartPole-v1/args.yml", f"{LAUGHS}env_kwargs: {{x: *a11}}\n", "or contains itself"),
        ("CartPole-v1/config.yml", "a: &a\n  b: *a\n", "or contains itself"),
        ("CartPole-v1/config.yml", MERGES, "config.yml can't be read"),
        ("CartPole-v1/config.yml", "x" * 100_001, "config.yml can't be read: it has more than 100,000 bytes"),
        ("CartPole-v1/command.txt", "x" * 100_001, "command.txt can't be read: it has more than 100,000 bytes"),
        ("CartPole-v1/args.yml", "algo: [a]\ngym_packages: 3\n", "algo is \"['a']\"; expected a text"),
        ("run.json", "[" * 90_000, "run.json can't be read: maximum recursion depth"),
        ("run.json", "[]", "run.json contains a list; expected a dict"),
        ("run.json", '{"steps": 1e999}', "steps is 'inf'; expected a number"),
        ("run.json", '{"total_timesteps": "many"}', "total_timesteps is 'many'; expected a number"),
        ("run.json", '{"seconds": NaN}', "seconds is 'nan'; expected a number"),
        ("run.json", '{"hyperparams": [1], "parent": {}}', "hyperparams is '[1]'; expected a mapping"),
        ("run.json", '{"charts": 3}', "charts is '3'; expected a list of texts"),
        ("run.json", '{"deterministic_eval": []}', "deterministic_eval is '[]'; expected true or false"),
        ("alerts.json", '[{"id": "x", "count": "many", "share": {}}]', "count is 'many'; expected a number"),
        ("evaluations.npz", arrays(timesteps=[np.inf], results=[[1.0]]), "evaluations.npz can't be read"),
        ("evaluations.npz", arrays(timesteps=[1, 2], results=[[1.0]]), "evaluations.npz can't be read"),
        (
            "evaluations.npz",
            zipped("results.npy", bytes(100_000_001)),
            "evaluations.npz can't be read: it has more than",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_can_not_be_read_is_named_in_the_report(tmp_path, capsys, file, content, problem):
    assert f"Problem: {file.rpartition('/')[2]}" in (report := report_of(tmp_path, capsys, **{file: content}))
    assert problem in report


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("progress.json", "[" * 100_000),
        ("progress.json", '{"time/total_timesteps": 1e300, "eval/n_episodes": 1e999, "eval/mean_reward": 1e999}\n'),
        ("0.monitor.csv", '#{"t_start": [], "env_id": {}}\nr,l,t\n1,1e999,3\n1,1e300,3\n1,nan,3\n5,5,5\n'),
        ("CartPole-v1.zip", zipped("data", '{"num_timesteps": 1e999}')),
        ("CartPole-v1.zip", zipped("data", "[" * 100_000)),
        ("run.json", '{"steps": 64, "seconds": 1e-320, "steps_at_start": -1e18}'),
    ],
    ids=range(6),
)
def test_odd_numbers_do_not_end_a_report(tmp_path, capsys, file, content):
    others = {"run.json": "{}", file: content}
    assert "## Made from" in report_of(tmp_path, capsys, **others)


def test_a_report_has_nothing_that_a_terminal_obeys(tmp_path, capsys):
    escape = "\x1b]0;title\x07\x1b[2J\x9b31m\r\u202e"
    texts = json.dumps(escape)
    files = {
        "CartPole-v1/command.txt": f"python {escape}",
        "CartPole-v1/config.yml": f"policy: {texts}\n",
        "CartPole-v1/args.yml": f"algo: {texts}\nenv: {texts}\n",
        "run.json": f'{{"state": "failed", "error": {texts}, "algorithm": "\\ud800"}}',
        "alerts.json": f'[{{"id": {texts}, "count": 1, "advice": {texts}}}]',
        "progress.json": f'{{{texts}: 1, "time/total_timesteps": 3}}\n',
        "0.monitor.csv": f'#{{"t_start": 0, "env_id": {texts}}}\nr,l,t\n1,1,1\n',
    }
    report = report_of(tmp_path, capsys, **files)
    assert "]0;title[2J" in report
    assert not [character for character in report if not character.isprintable() and character != "\n"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may read and write everything")
def test_a_folder_that_can_not_be_written_is_a_message(tmp_path, capsys):
    report_of(tmp_path, capsys)
    tmp_path.chmod(0o500)
    try:
        assert main(["report", "--no-plots", str(tmp_path)]) == 2
    finally:
        tmp_path.chmod(0o700)
    assert "Permission denied" in capsys.readouterr().err


def test_errors_have_nothing_that_a_terminal_obeys(tmp_path, capsys):
    folder = tmp_path / "logs\x1b[2J"
    (folder / "run").mkdir(parents=True)
    shutil.copy(__file__, folder / "run" / "progress.json")
    assert main(["report", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "Runs in it" in said and "\x1b" not in said
