"""One line in the registry is all that a new controller needs."""

import os
import subprocess
import sys

# A controller that lives outside of the project; the registry's one line is the assignment to CONTROLLERS.
NEW = """
from sagc.controllers import registry
from sagc.controllers.sagc import SAGC

class Toy(SAGC):
    type = "toy"

registry.CONTROLLERS["toy"] = Toy
registry.CONTROLLED = tuple(kind for kind in registry.CONTROLLERS if kind != "static")

from sagc.config.grid import validate_grid
from sagc.config.reading import read_yaml
from sagc.simulation.config import validate_simulation

def show(name, controller):
    print(name, type(controller).__name__, *(controller.parameters.get(key) for key in ("delta", "eta", "seed")))

raw = read_yaml("config/quick.yaml")
raw["grid"] |= {"groups": [16, "toy", "mine"], "stacks": ["vanilla"]}
raw["controllers"] |= {"toy": {"delta": 0.3}, "mine": {"type": "toy", "eta": 3.0}}
grid = validate_grid(raw)
for cell in grid.cells():
    show(cell.path, grid.run(cell).build_controller())
again = registry.build_controller("toy", **grid.run(grid.cells()[1]).build_controller().parameters)
again.load_state_dict(grid.run(grid.cells()[1]).build_controller().state_dict())
simulation = read_yaml("config/simulation.yaml") | {"arms": ["toy"], "controllers": {"toy": {"delta": 0.3}}}
show("simulated", validate_simulation(simulation, "simulation").controller("toy", seed=5))
"""


def test_a_controller_of_the_registry_is_known_everywhere(project):
    done = subprocess.run(
        [sys.executable, "-c", NEW],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    static, toy, mine, simulated = (line.split() for line in done.stdout.splitlines())
    assert static == ["tiny-qwen2/dapo/vanilla/16/seed0", "StaticGroupSize", "None", "None", "None"]
    assert toy[:4] == ["tiny-qwen2/dapo/vanilla/toy/seed0", "Toy", "0.3", "0.5"] and toy[4].isdecimal()
    assert mine[:4] == ["tiny-qwen2/dapo/vanilla/mine/seed0", "Toy", "0.5", "3.0"] and mine[4] == toy[4]
    assert simulated == ["simulated", "Toy", "0.3", "0.5", "5"]


def test_wildcards_of_the_dag_come_from_the_registry(project):
    """A group's pattern in workflow/rules/common.smk names no controller itself."""
    text = (project / "workflow" / "rules" / "common.smk").read_text(encoding="utf-8")
    assert "*CONTROLLED" in text and "sagc-robust" not in text
