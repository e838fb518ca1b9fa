from pathlib import PurePosixPath

from fairlead_dev.bench.house.counts import layer_contracts, lines_by_room, pythonpath_uses


def texts(**files: str) -> dict[PurePosixPath, str]:
    """Texts by path; `__` stands for a slash and `_dot_` for a dot."""
    return {PurePosixPath(name.replace("__", "/").replace("_dot_", ".")): text for name, text in files.items()}


def test_lines_count_to_the_room_and_kind_of_their_file() -> None:
    found = lines_by_room(
        texts(
            operator__fairlead__core__a_dot_py="1\n2\n",
            operator__tests__core__test_a_dot_py="1\n",
            images__mover__src__main_dot_rs="1\n2\n3\n",
            images__mover__tests__wire_dot_rs="1\n",
            e2e__test_b_dot_py="1\n",
            docs__index_dot_md="1\n",
            README_dot_md="1\n2\n",
            hack__x_dot_toml="1\n",
        )
    )
    assert found == {"docs_pages": 3, "e2e_tests": 1, "mover_code": 3, "mover_tests": 1, "operator_code": 2, "operator_tests": 1}


def test_every_line_that_names_a_path_of_modules_is_a_use_except_in_pages() -> None:
    found = pythonpath_uses(
        texts(
            Makefile="all:\n\tPYTHONPATH=hack python -m x\n\tMYPYPATH=hack mypy\n",
            hack__a_dot_py="import sys\nsys.path.insert(0, 'x')\nprint(sys.pathlike)\n",
            docs__a_dot_md="PYTHONPATH\n",
        )
    )
    assert found == ["Makefile:2", "Makefile:3", "hack/a.py:2"]


def test_the_search_does_not_find_itself() -> None:
    assert pythonpath_uses({PurePosixPath("hack/fairlead_dev/bench/house/counts.py"): "PYTHONPATH\n"}) == []


def test_contracts_are_counted_by_their_headings() -> None:
    assert layer_contracts("[importlinter]\nroot_package = x\n[importlinter:contract:a]\n# [importlinter:contract:b]\n") == 1
