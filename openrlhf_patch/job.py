"""What the launcher tells the driver process."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Spec:
    """A job in JSON: the run, OpenRLHF's flags, and the files of the run; paths are absolute."""

    run: dict
    flags: list[str]
    data: str
    trace: str
    kept: str
    ray_folder: str

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> "Spec":
        return cls(**json.loads(path.read_text(encoding="utf-8")))
