import pytest

from veilflow.cli import classifier, fit, use
from veilflow.cli.output import in_flags

HINTS = {
    "a word": (fit.images, "or pass invalid='skip'.", "or pass --invalid skip."),
    "two words": (
        classifier.classifier,
        "model='grud', loss='clipped-ce'",
        "--model grud, --loss clipped-ce",
    ),
    "a switch": (fit.table, "pay_for_discovery=True needs", "--pay-for-discovery needs"),
    "a long name": (fit.table, "for warm_start='none'.", "for --warm-start none."),
    "a flag named already": (
        fit.table,
        "pay_for_discovery=True (--pay-for-discovery) to",
        "--pay-for-discovery to",
    ),
    "a flag with its word": (
        fit.table,
        'pass extra="ignore" (--extra ignore).',
        "pass --extra ignore.",
    ),
    "no value": (fit.images, "Pass labels=.", "Pass --labels."),
    "any value": (fit.table, "give clip_norm=...", "give --clip-norm"),
    "how images are read": (
        fit.images,
        "Pass size='resize', or declare",
        "Pass size='resize' (in Python), or declare",
    ),
    "a flag of another command": (use.score, "invalid='skip' leaves", "invalid='skip' (in Python)"),
}
OTHERS = {
    "an argument, not an option": (use.score, "model='grud'"),
    "no name of a flag": (fit.table, "column x='a' is not declared"),
    "a number": (fit.table, "got epsilon=1, steps=5"),
}


@pytest.mark.parametrize(("command", "message", "expected"), HINTS.values(), ids=HINTS)
def test_arguments_become_flags(command, message, expected):
    assert in_flags(message, command).startswith(expected)


@pytest.mark.parametrize(("command", "message"), OTHERS.values(), ids=OTHERS)
def test_other_text_stays(command, message):
    assert in_flags(message, command) == message
