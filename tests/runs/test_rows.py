"""Rows of metrics: files that a resumed training appends to."""

import csv
import json
import math

from stable_baselines3.common.logger import Logger

from sb3_ext.runs.rows import AppendedCSV, add_log_files


def test_a_new_column_is_in_the_file_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "progress.csv"
    file = AppendedCSV(str(path))
    file.write({"b": 1, "text": 'a, "b"'}, {"b": (), "text": ()})
    before = path.read_text()
    with path.open() as seen_by_others:
        file.write({"c": 2.5, "hidden": 3}, {"c": (), "hidden": ("csv",)})
        assert seen_by_others.read() == before
    file.write({"b": 4}, {"b": ()})
    file.close()
    rows = list(csv.DictReader(path.open()))
    assert rows == [
        {"b": "1", "text": 'a, "b"', "c": ""},
        {"b": "", "text": "", "c": "2.5"},
        {"b": "4", "text": "", "c": ""},
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["progress.csv"]


def test_files_keep_the_rows_of_the_training_before(tmp_path):
    logger = Logger(None, [])
    first = add_log_files(logger, tmp_path)
    assert add_log_files(logger, tmp_path) == []
    logger.record("a", 1)
    logger.dump(1)
    for output_format in first:
        output_format.close()
    with open(tmp_path / "progress.csv", "a") as csv_file, open(tmp_path / "progress.json", "a") as json_file:
        csv_file.write("0.")  # a training that was killed
        json_file.write('{"a": 0.')
    logger = Logger(None, [])
    add_log_files(logger, tmp_path)
    for step, row in enumerate([{"a": 2, "b": 3.5}, {"b": math.nan}], start=2):
        for name, value in row.items():
            logger.record(name, value)
        logger.dump(step)
    with open(tmp_path / "progress.csv") as file:
        assert list(csv.DictReader(file)) == [{"a": "1", "b": ""}, {"a": "2", "b": "3.5"}, {"a": "", "b": "nan"}]
    rows = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    assert rows[:2] == [{"a": 1}, {"a": 2, "b": 3.5}] and math.isnan(rows[2]["b"])
