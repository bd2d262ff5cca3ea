"""Command lines that pages and results print."""

import shlex

from sim2cam.cli import _COMMANDS, _split_command
from sim2cam.commands.parser import parse_command


def parse_command_line(text):
    """Parse the commands of a line, joined by &&, and return them."""
    commands = []
    for line in text.split(" && "):
        program, *words = shlex.split(line)
        assert program == "sim2cam"
        name, rest = _split_command(words)
        commands.append(parse_command(_COMMANDS[name], name, rest))
    return commands
