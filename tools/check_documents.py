#!/usr/bin/env python3
"""Checks the documents of a repository: what they point to exists, and every folder has a README.

Usage: check_documents.py ROOT

Looked at are the files that git knows. A document is a *.md; its links to other places of the repository
must exist. So must every document, example and tool that a source names by its path. Every folder at the top and in src/ has a
README.md of at most a screen.
"""
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"\b((?:docs|examples|tools)/[A-Za-z0-9_./-]*\.(?:md|yaml|py|mjs|json))\b")
SOURCES = {".cpp", ".h", ".py", ".cmake", ".txt", ".yaml", ".md", ".mjs"}
README_LINES_MAX = 70


def lines_of(root, files):
    for name in files:
        path = root / name
        if path.suffix in SOURCES and "data" not in pathlib.Path(name).parts[:2]:
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                yield name, number, line


def missing(root, files):
    """Yields (place, what is not there)."""
    for name, number, line in lines_of(root, files):
        folder = (root / name).parent
        if name.endswith(".md"):
            for target in LINK.findall(line):
                file = target.split("#")[0]
                if file and "://" not in file and not (folder / file).exists():
                    yield f"{name}:{number}", target
        for target in NAMED.findall(line):
            if not (root / target).exists() and not (folder / target).exists():
                yield f"{name}:{number}", target


def folders_of(files):
    for name in files:
        parts = pathlib.Path(name).parts
        if len(parts) > 1 and not parts[0].startswith("."):
            yield parts[0]
            if parts[0] == "src" and len(parts) > 2:
                yield "/".join(parts[:2])


def main(root):
    root = pathlib.Path(root)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True,
                            capture_output=True, text=True).stdout.splitlines()
    files = sorted(name for name in listed if (root / name).is_file())
    problems = [f"{place}: {target} does not exist" for place, target in missing(root, files)]
    for folder in sorted(set(folders_of(files)) - {"src"}):
        readme = root / folder / "README.md"
        if not readme.exists():
            problems.append(f"{folder}: has no README.md")
        elif len(readme.read_text().splitlines()) > README_LINES_MAX:
            problems.append(f"{folder}/README.md: is longer than {README_LINES_MAX} lines")
    for problem in problems:
        print(f"{problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
