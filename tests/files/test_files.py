"""Files that are whole or not there, made by many threads, and locks that divide work."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from armrace.errors import UnwritableOutput
from armrace.files import atomic_path, check_writable, locked, make_folder, write_text
from armrace.files.private import (
    check_private,
    create_private,
    make_private_folder,
    open_private,
)


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
from armrace.files import locked

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


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_private_files_and_folders_are_closed_to_others_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        make_private_folder(tmp_path / "a" / "b")
        os.close(create_private(tmp_path / "a" / "b" / "file"))
        with atomic_path(tmp_path / "keys", private=True) as path:
            path.write_text("secret")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    assert mode(tmp_path / "a" / "b" / "file") == mode(tmp_path / "keys") == 0o600


def test_a_planted_link_is_neither_written_through_nor_read(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(precious)
    with pytest.raises(FileExistsError):
        create_private(link)
    with pytest.raises(OSError, match="symbolic links"):
        open_private(link)
    with atomic_path(link, private=True) as path:
        path.write_text("new")
    assert (precious.read_text(), link.read_text(), link.is_symlink()) == ("mine", "new", False)


def test_what_others_can_write_is_not_opened(tmp_path):
    file = tmp_path / "file"
    file.touch(0o644)
    os.close(open_private(file))
    for bits in (0o664, 0o646):
        file.chmod(bits)
        with pytest.raises(PermissionError, match="other users can write to it"):
            open_private(file)
    tmp_path.chmod(0o777)
    for check in (check_private, make_private_folder):
        with pytest.raises(PermissionError, match="other users can write to it"):
            check(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_another_user_is_not_opened(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch(0o600)
    link.symlink_to(file)
    check_private(link)
    os.chown(link, 12345, -1, follow_symlinks=False)
    with pytest.raises(PermissionError, match="it belongs to another user"):
        check_private(link)
    os.chown(file, 12345, -1)
    for use in (check_private, open_private):
        with pytest.raises(PermissionError, match="it belongs to another user"):
            use(file)


def test_a_pipe_or_folder_is_not_opened_as_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match="it is not a file"):
            open_private(path)
