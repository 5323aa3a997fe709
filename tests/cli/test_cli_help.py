from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

import strandline
from strandline.cli.app import app

ROOT = typer.main.get_command(app)
GROUPS = {name: group for name, group in ROOT.commands.items() if hasattr(group, "commands")}
COMMANDS = {name: command for name, command in ROOT.commands.items() if name not in GROUPS} | {
    f"{group} {name}": command for group in GROUPS for name, command in GROUPS[group].commands.items()
}
PROGRAM = Path(sys.executable).with_name("strandline")
EXPECTED = {
    "append",
    "read",
    "tail",
    "head",
    "stats",
    "check",
    "backup",
    "migrate",
    "schema",
    "doctor",
    "demo",
    "run",
    "followers list",
    "followers show",
    "followers pause",
    "followers resume",
    "followers reset",
    "followers dead-letters",
    "followers discard",
    "followers replay",
    "models list",
    "models show",
    "models rebuild",
} | (ABOUT_TOKENS := {"token create", "token list", "token revoke"})
SAYS_MORE = {"token create"}  # on stderr: stdout has the secret alone
UNTIL_STOPPED = {"serve"}  # its example runs in test_cli_serve.py, which stops it
ON_SPARK = {  # their examples run in tests/spark, which has a session
    "spark audit",
    "spark export",
    "spark fold",
    "spark import",
    "spark rebuild",
    "spark report",
    "spark retag",
}


def shell(script, **environment):
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PATH": path, **environment},
    )


def example_in(text):
    before, heading, example = text.partition("\nExample:\n")
    assert heading, f"no example at the end of {before}"
    return "\n".join(line.removeprefix("  ") for line in example.splitlines())


def test_the_commands_are_all_there():
    assert set(COMMANDS) == EXPECTED | UNTIL_STOPPED | ON_SPARK


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_example_at_the_end_of_each_help_runs(cli, name, school, application, model, token):
    done = cli(*name.split(), "--help")
    assert (done.code, done.err) == (0, "")
    example = example_in(done.out)
    assert f"strandline {name} " in example
    if name == "append":  # it makes the store itself
        Path(school).unlink()
    ran = shell(example)
    assert ran.returncode == 0, ran.stderr
    assert bool(ran.stderr) == (name in SAYS_MORE), ran.stderr
    assert ran.stdout


def test_the_help_of_the_program_ends_with_an_example_that_runs(cli):
    example = example_in(cli("--help").out)
    ran = shell(
        example.replace("strandline demo", "strandline demo --no-spark")
    )  # tests/spark has the rest of it
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("name", sorted(EXPECTED | UNTIL_STOPPED | ON_SPARK))
def test_every_command_argument_and_option_says_what_it_is(name):
    command = COMMANDS[name]
    assert command.help
    assert command.help.splitlines()[0].endswith(".")
    for parameter in command.params:
        assert parameter.help, f"{name} {parameter.name}"


def test_the_first_sentences_fit_the_list_of_commands(cli):
    assert "..." not in cli("--help").out.partition("Commands:")[2]


def test_every_command_has_json(cli):
    for name, command in COMMANDS.items():
        assert any("--json" in parameter.opts for parameter in command.params), name


def test_every_command_that_takes_a_store_names_its_log_alike():
    for name, command in COMMANDS.items():
        if name in ABOUT_TOKENS:
            continue
        (option,) = [parameter for parameter in command.params if "--log" in parameter.opts]
        assert option.envvar == "STRANDLINE_LOG", name
        assert option.default in ("default", ["default"]), name


@pytest.mark.parametrize("group", [[], *([name] for name in GROUPS)])
def test_no_command_shows_the_help(cli, group):
    assert cli(*group).out == cli(*group, "--help").out
    assert cli(*group).code == 0


def test_version(cli):
    assert cli("--version").out == f"strandline {strandline.__version__}\n"


def test_a_mistyped_command_is_guessed(cli):
    done = cli("raed")
    assert done.code == 2
    assert "'read'" in done.err


def test_the_shell_completes_commands_and_options():
    for words, expected in (("strandline mig", "migrate"), ("strandline read --exc", "--exclude-type")):
        script = shell(
            "strandline",
            _STRANDLINE_COMPLETE="complete_bash",
            COMP_WORDS=words,
            COMP_CWORD=str(words.count(" ")),
        )
        assert expected in script.stdout


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_program_says_what_to_install(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import strandline.cli; strandline.cli.main()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "pip install 'strandline[cli]'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_importing_the_library_does_not_import_the_command_line():
    code = "import sys, strandline; sys.exit(bool({'typer', 'rich', 'strandline.cli'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
