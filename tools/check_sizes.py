#!/usr/bin/env python3
"""Checks lengths in a source tree: files of at most 600 lines, functions of at most 70.

Usage: check_sizes.py SOURCE_ROOT

A function is found by its braces: what begins at a line that ends in "{" after a ")" and is no control
statement, and ends at the brace that closes it. Formatting is clang-format's, so that suffices.
"""
import pathlib
import re
import sys

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
OPENS = re.compile(r"\)\s*(const|noexcept|override|final|mutable|\s)*(->\s*[^{]+)?\{$")
CONTROL = re.compile(r"^\s*(\}?\s*(if|else|for|while|switch|do|catch|try)\b|.*[=(,]\s*\[|\[)")


def strip(line):
    """The line without strings, characters and comments, for counting braces."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    line = re.sub(r"'(\\.|[^'\\])'", "''", line)
    return line.split("//")[0]


def long_functions(lines):
    """Yields (first line, length) of functions that are too long."""
    number = 0
    while number < len(lines):
        line = strip(lines[number]).rstrip()
        # Only at the outermost level of indentation a definition can begin (0 or 2 spaces).
        shallow = len(line) - len(line.lstrip()) <= 2
        if shallow and OPENS.search(line) and not CONTROL.match(line):
            depth, end = 0, number
            for end in range(number, len(lines)):
                text = strip(lines[end])
                depth += text.count("{") - text.count("}")
                if depth <= 0:
                    break
            if end - number + 1 > FUNCTION_LINES_MAX:
                yield number + 1, end - number + 1
            number = end
        number += 1


def main(root):
    errors = 0
    for path in sorted(p for p in root.rglob("*") if p.suffix in {".h", ".cpp"}):
        lines = path.read_text().splitlines()
        if len(lines) > FILE_LINES_MAX:
            print(f"{path}: error: {len(lines)} lines, at most {FILE_LINES_MAX}")
            errors += 1
        for first, length in long_functions(lines):
            print(f"{path}:{first}: error: a function of {length} lines, at most {FUNCTION_LINES_MAX}")
            errors += 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
