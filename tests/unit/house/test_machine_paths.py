import re

from support.repository import ROOT, tree_files

#: Folders of the machine that this tree was written on; nobody else has them.
MACHINE_PATH = re.compile(rb"(?<![\w.~-])/(?:work|root|opt/(?:pypi|wheels))(?:/|\b)")

#: The one index that is named: its makers publish torch for CPUs there alone.
TORCH_FOR_CPUS = "--extra-index-url https://download.pytorch.org/whl/cpu -r torch.txt"


def test_nothing_names_a_path_of_the_machine_that_it_was_written_on() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tree_files()
        if path.name != "test_machine_paths.py"
        for number, line in enumerate(path.read_bytes().splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []


def test_the_makefile_and_the_image_name_no_package_index() -> None:
    for path in tree_files():
        if path.name in {"Makefile", "constraints.txt", "pyproject.toml"} or path.suffix in {".Dockerfile", ".yml"}:
            text = path.read_text(encoding="utf-8").replace(TORCH_FOR_CPUS, "")
            assert not re.search(r"index-url|find-links|extra-index", text), path
