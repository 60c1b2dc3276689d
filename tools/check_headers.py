#!/usr/bin/env python3
"""Checks that every header of src/ compiles alone.

Usage: check_headers.py COMPILE_COMMANDS_JSON    (run from the project's root)
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys


def flags_of(commands):
    """The include paths and definitions of any file of ours: all are compiled alike."""
    words = shlex.split(next(c["command"] for c in commands if "/src/base/" in c["file"]))
    return [w for w in words if w.startswith(("-I", "-D", "-isystem", "-std"))]


def check(header, flags):
    command = ["clang++-14", "-fsyntax-only", "-x", "c++", "-Isrc", '-DCADRE_TEST_DATA=""', *flags,
               str(header)]
    done = subprocess.run(command, capture_output=True, text=True)
    return header, done.returncode, done.stderr


def main(path):
    flags = flags_of(json.loads(pathlib.Path(path).read_text()))
    # Parts of a file that Highway includes once per target are no headers by themselves.
    headers = [h for h in sorted(pathlib.Path("src").rglob("*.h")) if "-inl" not in h.name]
    errors = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, code, text in pool.map(lambda h: check(h, flags), headers):
            if code != 0:
                print(f"{header}: error: does not compile alone\n{text}")
                errors += 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
