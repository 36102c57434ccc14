"""Files that are whole or not there, made by many threads, and locks that divide work."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from armrace.errors import UnwritableOutput
from armrace.files import check_writable, make_folder, write_text
from armrace.files.locks import locked


def test_new_files_get_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    write_text(tmp_path / "ours", "text")
    usual, ours = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "ours"))
    assert ours == usual


def test_writing_never_touches_the_umask_which_other_threads_use(tmp_path, monkeypatch):
    def refuse(mask):
        raise AssertionError("the umask of the whole process was changed")

    monkeypatch.setattr(os, "umask", refuse)
    threads = [
        threading.Thread(target=write_text, args=(tmp_path / f"{n}", "text")) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(map(str, range(8)))


@pytest.mark.parametrize("write", [lambda path: write_text(path, ""), check_writable, make_folder])
def test_a_name_with_a_null_character_is_refused(tmp_path, write):
    with pytest.raises(UnwritableOutput, match="its name has a null character"):
        write(tmp_path / "a\0b")


@pytest.mark.parametrize("write", [lambda path: write_text(path, ""), check_writable])
def test_a_link_to_itself_is_refused(tmp_path, write):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UnwritableOutput, match="its links form a circle"):
        write(tmp_path / "loop")


def test_a_lock_is_held_by_one_and_leaves_no_file(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    with locked([one]) as had:
        assert had == [True]
        with locked([one, two]) as also:
            assert also == [False, True]
        assert one.exists()
    assert list(tmp_path.iterdir()) == []
    with locked([one]) as again:
        assert again == [True]


def test_a_process_that_dies_releases_its_locks(tmp_path):
    script = """
import os, sys
from pathlib import Path
from armrace.files.locks import locked

with locked([Path(sys.argv[1])]) as had:
    print(had, flush=True)
    sys.stdin.read(1)
    os._exit(1)
"""
    file = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "[True]\n"
        with locked([file]) as had:
            assert had == [False]
        process.communicate("x")
    with locked([file]) as had:
        assert had == [True]


def test_a_lock_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UnwritableOutput, match="cannot lock"),
        locked([tmp_path / "file" / "lock"]),
    ):
        pass
