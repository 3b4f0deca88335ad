"""A run with arguments of its own: what it executes, made from the job of its task and what the caller gives."""

from collections.abc import Mapping, Sequence

from evenbeat.model import ArgumentItem, Invalid, Job


def job_with_arguments(
    job: Job, args: Sequence[ArgumentItem], kwargs: Mapping[str, ArgumentItem], env: Mapping[str, str]
) -> Job:
    """The job of one run; raise Invalid for arguments that the job cannot have.

    Of a function `args` take the place of its positional arguments, `kwargs` are added to its named ones. Of a command
    `args` are further words at its end. `env` is added to its variables.
    """
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise Invalid(f"{name[:64]!r} cannot be the name of a variable, or its value has a NUL", place="env")
    whole = job.changed(env={**job.env, **env})
    if job.function is not None:
        whole = whole.changed(args=tuple(args) or job.args, kwargs={**job.kwargs, **kwargs})
    elif kwargs:
        raise Invalid(
            f"a command has no named arguments, found {next(iter(kwargs))!r}; accepted: words for its end, variables",
            place="kwargs",
        )
    elif args:
        whole = whole.changed(command=_with_words(job, args))
    return whole


def _with_words(job: Job, words: Sequence[ArgumentItem]) -> tuple[str, ...]:
    if job.shell:
        raise Invalid(
            "a line for the shell gets no further words; accepted: variables ($NAME in the line)", place="args"
        )
    for word in words:
        if not isinstance(word, str) or "\0" in word:
            raise Invalid(f"{word!r:.64} is no word of a command, accepted: texts", place="args")
    return (*job.command, *(str(word) for word in words))
