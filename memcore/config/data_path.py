"""A path in a policy: it may not climb out of its place, on whatever system reads it."""

from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated

from pydantic import AfterValidator

from memcore.frozen import NotBlankStr


def _contained(value: str) -> str:
    # Both parsers: "a\\..\\b" is one harmless name to POSIX and an escape to Windows.
    if ".." in PurePosixPath(value).parts or ".." in PureWindowsPath(value).parts:
        raise ValueError("must not contain '..', which would lead out of the data folder")
    if "\\" in value or PureWindowsPath(value).drive:
        raise ValueError("must be a POSIX path: no drive letter and no backslash")
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


#: A POSIX path without "..", drive letter, backslash or NUL.
DataPath = Annotated[NotBlankStr, AfterValidator(_contained)]
