"""The build hook: compile the CPU engine and put it into the wheel. Without a compiler, the wheel has none."""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path(__file__).parent / "src" / "qkv" / "native" / "build.py"


class CustomBuildHook(BuildHookInterface):
    """Runs before a wheel, and before an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; a wheel with libraries is for this platform only."""
        del version
        made = runpy.run_path(str(BUILD))["compile_all"]()
        if made:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data |= {"pure_python": False, "tag": f"py3-none-{platform}"}
            build_data["artifacts"] += [f"src/qkv/native/{file.name}" for file in made]
