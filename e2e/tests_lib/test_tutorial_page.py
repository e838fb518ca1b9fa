import pytest
from e2e.lib.tutorial import COMMANDS, PAGE, PREPARE, Step, looks_as_shown, steps

TEXT = """# A page
## First
Some `code`.
```sh
one --flag
two
```
```text
done 2
```
```yaml
a: 1
```

## Second
```sh
three
```
"""


def test_steps_are_the_commands_of_a_section_with_the_output_that_is_shown() -> None:
    assert steps(TEXT, "First") == [Step("First", "one --flag"), Step("First", "two", "done 2\n")]
    assert steps(TEXT, "Second") == [Step("Second", "three")]


@pytest.mark.parametrize(
    ("printed", "alike"),
    [
        ("TENANT  SHARE\nastro   119.9M\n", True),
        ("TENANT  SHARE\nastro   <none>\n", False),
        ("TENANT  SHARE\nbio   120M\n", False),
        ("TENANT  SHARE\n", False),
        ("TENANT  SHARE\nastro   120M\nbio     60M\n", False),
    ],
    ids=["other figures", "no figure", "another name", "a line too few", "a line too many"],
)
def test_output_is_as_shown_but_for_figures_and_spaces(printed: str, alike: bool) -> None:
    assert looks_as_shown(printed, "TENANT   SHARE\nastro    120M\n") is alike


def test_the_tutorial_needs_five_commands_from_helm_install_on() -> None:
    page = PAGE.read_text()
    commands = [step.command for step in steps(page, COMMANDS)]
    assert commands[0].startswith("helm install ")
    assert len(commands) <= 5
    assert steps(page, PREPARE)
