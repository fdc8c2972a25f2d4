"""``sb3-ext pack``: a run as a zip, and back."""

from registered_runs import add_run
from report_folders import zoo_run

from sb3_ext.cli import main
from sb3_ext.runs.record import read_record


def test_a_run_can_be_packed_and_unpacked_elsewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    zoo_run(tmp_path / "logs" / "ppo" / "CartPole-v1_7")
    assert main(["pack", "@last"]) == 0
    assert "ppo-CartPole-v1_7.zip: " in capsys.readouterr().out
    assert main(["pack", "--unpack", "ppo-CartPole-v1_7.zip", "-f", "there"]) == 0
    assert capsys.readouterr().out.strip() == "there/ppo/CartPole-v1_7"
    assert read_record(tmp_path / "there" / "ppo" / "CartPole-v1_7").args["seed"] == 7


def test_the_id_of_a_run_that_was_unpacked_twice_is_answered_with_both_folders(tmp_path, capsys):
    logs, zipped = tmp_path / "logs", str(tmp_path / "a.zip")
    main(["pack", str(add_run(tmp_path, "ppo/A_1", id="abcd1234")), "-o", zipped])
    for _ in range(2):
        main(["pack", "--unpack", zipped, "-f", str(logs)])
    assert main(["show", "abcd1234", "-f", str(logs)]) == 2
    said = capsys.readouterr().err
    assert "ppo/A_1 (abcd1234)" in said and "ppo/A_2 (abcd1234)" in said


def test_what_is_left_out_is_said(tmp_path, capsys):
    folder = zoo_run(tmp_path / "ppo" / "CartPole-v1_7")
    (folder / "large.pkl").write_bytes(bytes(2_000_000))
    assert main(["pack", str(folder), "-o", str(tmp_path / "a.zip"), "--max-mb", "1"]) == 0
    assert "Left out: large.pkl (2.0 MB)" in capsys.readouterr().out


def test_a_file_that_is_no_run_is_refused(tmp_path, capsys):
    (tmp_path / "a.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    assert main(["pack", "--unpack", str(tmp_path / "a.zip"), "-f", str(tmp_path / "logs")]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_half_a_zip_leaves_nothing_behind(tmp_path, capsys):
    folder = zoo_run(tmp_path / "ppo" / "CartPole-v1_7")
    main(["pack", str(folder), "-o", str(tmp_path / "a.zip")])
    (tmp_path / "half.zip").write_bytes((tmp_path / "a.zip").read_bytes()[:500])
    assert main(["pack", "--unpack", str(tmp_path / "half.zip"), "-f", str(tmp_path / "logs")]) == 2
    assert "half.zip is not a whole zip file" in capsys.readouterr().err and not (tmp_path / "logs").exists()
