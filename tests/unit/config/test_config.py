"""sagc.config.grid: what is refused and in which words, how runs are resolved, hashed and seeded."""

import copy
import inspect
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sagc.config.batches import check_divisible
from sagc.config.grid import GridConfig, validate_grid
from sagc.config.run import Cell
from sagc.config.schema import SCHEMA_PATH, schema_text
from sagc.controllers.registry import CONTROLLERS
from sagc.errors import UserError
from tests.configs import load_grid


def refusal(raw, **options) -> str:
    with pytest.raises(UserError) as caught:
        validate_grid(raw, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def put(raw, path, value):
    *parents, last = path.split(".")
    for name in parents:
        raw = raw.setdefault(name, {})
    raw[last] = value


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("trainig", {}, "unknown key trainig; allowed here are results, grid, include, models"),
        ("training.stepz", 3, "unknown key training.stepz; allowed here are steps, prompts_per_step"),
        ("models.tiny.size", 3, "unknown key models.tiny.size; allowed here are type, architecture, warm_start"),
        ("models.tiny.warm_start.x", 3, "unknown key models.tiny.warm_start.x; allowed here are seed, steps"),
        ("algorithms.grpo.overlong.x", 1, "unknown key algorithms.grpo.overlong.x; allowed here are fraction, penalty"),
        ("evaluation.benchmarks", {"a": {"task": "t", "k": 1}}, "unknown key evaluation.benchmarks.a.k; allowed"),
        ("jobs.train.cores", 1, "unknown key jobs.train.cores; allowed here are threads, mem_mb, runtime, gpus"),
        ("include", [{"model": "tiny"}], "key include.0.algorithm is missing (and 3 more)"),
        ("training.steps", "many", "training.steps is 'many': input should be a valid integer"),
        ("training.steps", 0, "training.steps is 0: input should be greater than or equal to 1"),
        ("training.learning_rate", float("nan"), "training.learning_rate is nan: input should be a finite number"),
        ("training", None, "training is None: input should be a valid dictionary"),
        ("straggler.tau", 1, "straggler.tau is 1: input should be greater than 1"),
        ("grid.groups", [4, "big"], "unknown group 'big'; a group is a size, or one of sagc, sagc-robust"),
        ("grid.groups", [True], "grid.groups.0 is True: a group is a size, or the name of a controller"),
        ("grid.groups", [4.5], "grid.groups.0 is 4.5: a group is a size, or the name of a controller"),
        ("grid.groups", ["a/b"], "grid.groups.0 is 'a/b': a group is a size, or the name of a controller"),
        ("grid.stacks", ["trl"], "grid.stacks.0 is 'trl': input should be 'vanilla' or 'openrlhf'"),
        ("grid.models", ["big"], "unknown model 'big'; models are tiny"),
        ("grid.algorithms", ["ppo"], "unknown algorithm 'ppo'; algorithms are grpo"),
        ("grid.seeds", [-1], "grid.seeds.0 is -1: input should be greater than or equal to 0"),
        ("grid.seeds", [], "grid has no runs, because an axis is empty and so is include"),
        ("models.tiny", {"architecture": "qwen2"}, "key models.tiny.type is missing"),
        ("models.tiny.type", "huge", "models.tiny: input tag 'huge'"),
        ("models.tiny.architecture", "gpt", "models.tiny.architecture is 'gpt': input should be 'qwen2' or 'llama'"),
        ("models.a b", {"type": "tiny", "architecture": "qwen2"}, "models.a b is 'a b': string should match pattern"),
        ("reward", "applause", "unknown reward 'applause'; rewards are"),
        (
            "controllers.bandit",
            {},
            "controllers: bandit.type is None: a controller of another name has type sagc or sagc",
        ),
        (
            "controllers.wide",
            {"type": "static"},
            "controllers: wide.type is 'static': a controller of another name has",
        ),
        (
            "controllers.wide",
            {"type": ["sagc"]},
            "controllers: wide.type is ['sagc']: a controller of another name has",
        ),
        ("controllers.sagc.type", "sagc-robust", "controllers: sagc.type is not set here: sagc is a type itself"),
        ("controllers.16", {"type": "sagc"}, "controllers: 16 is a static group size, which has no parameters"),
        (
            "controllers.sagc.step_size",
            1,
            "controllers.sagc: unknown parameter 'step_size' of controller 'sagc'; allow",
        ),
        ("controllers.sagc-robust.delta", 2, "controllers.sagc-robust: delta"),
        ("controllers.sagc.tau", 3, "controllers: sagc.tau is not set here: tau and event are in straggler"),
        ("controllers.sagc-robust.ladder", [2, 4, 8], "controllers.sagc-robust: ladder[0] must be an integer of at le"),
        ("training.samples_per_step", 64, "training: samples_per_step is 64 with hold: prompts"),
        ("training.hold", "samples", "training: samples_per_step is None with hold: samples"),
        ("training.optimizer_steps", 5, "training.optimizer_steps x training.micro_batches is 5, which does not divi"),
    ],
)
def test_each_mistake_has_its_sentence(minimal, path, value, sentence):
    put(minimal, path, value)
    assert refusal(minimal, source="my.yaml").startswith(f"my.yaml: {sentence}")


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("grid.groups", [1], "group 1: group_size"),
        ("controllers.sagc", {"ladder": [1, 4]}, "controllers.sagc: ladder[0]"),
        ("controllers.sagc-robust", {"ladder": [1, 4]}, "controllers.sagc-robust: ladder[0]"),
    ],
)
def test_a_group_of_one_has_no_baseline_and_is_refused(minimal, path, value, where):
    put(minimal, path, value)
    put(minimal, "straggler.tau", 1.5)
    assert f"{where} must be an integer of at least 2 (a group's baseline needs two responses)" in refusal(minimal)


@pytest.mark.parametrize("raw", [None, [], "results", 3])
def test_a_config_is_a_mapping(raw):
    assert "must be a mapping of keys to values" in refusal(raw)


def test_the_samples_per_step_are_a_multiple_of_every_size(minimal):
    for samples, size in [(8, 16), (28, 8)]:
        minimal["training"] = {"hold": "samples", "samples_per_step": samples}
        said = f"training.samples_per_step is {samples}, which is not a multiple of group size {size}"
        assert refusal(minimal).endswith(said)
    minimal["training"]["samples_per_step"] = 16 * 12  # the robust ladder has 12
    assert validate_grid(minimal)


def test_a_batch_is_shared_by_processes_without_a_rest(minimal):
    minimal["training"] = {"prompts_per_step": 6}
    run = validate_grid(minimal).run(Cell(model="tiny", algorithm="grpo", stack="vanilla", group=4, seed=0))
    check_divisible(run, processes=3)
    with pytest.raises(UserError, match=r"training.prompts_per_step is 6, which is not a multiple of 4 processes"):
        check_divisible(run, processes=4)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"grid:\n  models: [a\n", "is not valid YAML at line 3, column 1: expected ',' or ']'"),
        (b"a: 1\n\tb: 2\n", "is not valid YAML at line 2, column 1: found character '\\t'"),
        (b"a: \x00", "is not valid YAML: special characters are not allowed"),
        (b"a: 2026-13-45", "is not valid YAML: month must be in 1..12"),
        (b"a: caf\xe9", "cannot be read: not UTF-8 text"),
        (b"", "must be a mapping of keys to values, not NoneType"),
    ],
)
def test_a_file_that_is_no_config(tmp_path, content, sentence):
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load_grid(path)
    assert str(path) in str(caught.value)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="cannot be read: No such file or directory"):
        load_grid(tmp_path / "config.yaml")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        load_grid(tmp_path)


KEYS = st.sampled_from(
    "results grid include models algorithms straggler controllers training data reward evaluation jobs steps hold type "
    "groups seeds tiny grpo sagc sagc-robust ladder delta tau task benchmarks overlong dynamic_sampling x".split()
)
LEAVES = st.none() | st.booleans() | st.integers(-3, 40) | st.floats() | st.text(max_size=5) | KEYS
VALUES = st.recursive(LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=6)


@given(path=st.lists(KEYS, min_size=1, max_size=3), value=VALUES)
def test_whatever_is_written_there_is_accepted_or_refused_in_one_sentence(path, value):
    raw = {
        "grid": {"models": ["tiny"], "algorithms": ["grpo"], "stacks": ["vanilla"], "groups": ["sagc"], "seeds": [0]},
        "models": {"tiny": {"type": "tiny", "architecture": "qwen2"}},
        "algorithms": {"grpo": {"loss": "grpo"}},
    }
    section = raw
    for name in path[:-1]:
        if not isinstance(section.setdefault(name, {}), dict):
            return
        section = section[name]
    section[path[-1]] = value
    try:
        grid = validate_grid(raw)
    except UserError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert grid.cells()


def test_the_runs_are_the_product_of_the_axes_and_what_is_included(minimal):
    minimal["grid"]["seeds"] = [0, 1]
    extra = {"model": "tiny", "algorithm": "grpo", "stack": "vanilla", "group": 6, "seed": 0}
    repeated = {**extra, "group": 4}
    minimal["include"] = [extra, repeated]
    paths = [cell.path for cell in validate_grid(minimal).cells()]
    assert paths == [
        *(f"tiny/grpo/vanilla/{group}/seed{seed}" for group in (4, "sagc", "sagc-robust") for seed in (0, 1)),
        "tiny/grpo/vanilla/6/seed0",
    ]


def test_a_grid_may_be_what_is_included_alone(minimal):
    minimal["grid"]["models"] = []
    minimal["include"] = [{"model": "tiny", "algorithm": "grpo", "stack": "vanilla", "group": 4, "seed": 0}]
    assert len(validate_grid(minimal).cells()) == 1


def runs(raw):
    grid = validate_grid(raw)
    return {cell.path: grid.run(cell) for cell in grid.cells()}


def test_a_controller_may_have_a_name_of_its_own(minimal):
    minimal["grid"]["groups"] = ["sagc-robust", "wide", "quick"]
    minimal["controllers"] = {"wide": {"type": "sagc-robust", "delta": 0.8}, "quick": {"type": "sagc", "eta": 2}}
    robust, wide, quick = (run.build_controller() for run in runs(minimal).values())
    assert (robust.type, robust.delta) == ("sagc-robust", 0.5)
    assert (wide.type, wide.delta) == ("sagc-robust", 0.8)
    assert (quick.type, quick.eta) == ("sagc", 2)
    minimal["controllers"]["wide"]["delta"] = 2
    assert refusal(minimal).startswith("config: controllers.wide: delta")


def test_named_controllers_of_type_sagc_draw_from_the_runs_seed(minimal):
    minimal |= {"controllers": {"quick": {"type": "sagc"}}}
    minimal["grid"] |= {"groups": ["quick"], "seeds": [0, 1]}
    first, second = (run.build_controller() for run in runs(minimal).values())
    assert first.state_dict() != second.state_dict()


def test_the_hash_is_that_of_the_content(minimal):
    first = runs(minimal)
    again = runs(yaml.safe_load(yaml.safe_dump(minimal, sort_keys=True)))
    assert {path: run.hash for path, run in first.items()} == {path: run.hash for path, run in again.items()}
    assert len({run.hash for run in first.values()}) == len(first)
    for run in first.values():
        assert type(run).model_validate_json(run.model_dump_json()).hash == run.hash


@pytest.mark.parametrize(
    ("path", "value", "changed"),
    [
        ("training.steps", 71, {"4", "sagc", "sagc-robust"}),
        ("straggler.tau", 3, {"4", "sagc", "sagc-robust"}),
        ("algorithms.grpo.clip_high", 0.3, {"4", "sagc", "sagc-robust"}),
        ("models.tiny.warm_start.seed", 1, {"4", "sagc", "sagc-robust"}),
        ("data.seed", 1, {"4", "sagc", "sagc-robust"}),
        ("controllers.sagc.delta", 0.3, {"sagc"}),
        ("controllers.sagc-robust.delta", 0.3, {"sagc-robust"}),
        ("evaluation.temperature", 0.5, set()),
        ("jobs.train.threads", 2, set()),
        ("results", "elsewhere", set()),
    ],
)
def test_the_hash_changes_with_what_changes_the_weights(minimal, path, value, changed):
    minimal |= {"data": {"type": "tiny"}, "controllers": {"sagc": {}, "sagc-robust": {}}}
    before = runs(minimal)
    put(minimal, path, value)
    after = runs(minimal)
    assert {before[p].cell.path.split("/")[3] for p in before if before[p].hash != after[p].hash} == changed


@pytest.mark.parametrize(
    ("group", "name", "default"),
    [("sagc", "rho", 0.9), ("sagc", "ladder", (4, 16)), ("sagc-robust", "hysteresis", 0.05), (4, "tau", 3.0)],
)
def test_the_hash_changes_with_a_default_of_the_controller(minimal, monkeypatch, group, name, default):
    minimal["grid"]["groups"] = [group]
    (before,) = runs(minimal).values()
    kind = CONTROLLERS[before.controller["type"]]
    constructor = inspect.signature(kind).parameters
    monkeypatch.setitem(kind.__init__.__kwdefaults__, name, default)
    (after,) = runs(minimal).values()
    assert before.controller.keys() == after.controller.keys() == {"type", *constructor} - {"seed"}
    if name == "tau":  # a straggler event is the config's
        assert before.hash == after.hash
    else:
        assert before.hash != after.hash
        assert after.controller[name] == (list(default) if isinstance(default, tuple) else default)


def test_a_default_that_is_written_out_is_the_same_run(minimal):
    written = copy.deepcopy(minimal)
    written["controllers"] = {
        "sagc": {"eta": 0.5, "radius": 1, "prior": [1, 1]},
        "sagc-robust": {"ladder": [4, 6, 8, 12, 16]},
    }
    assert [run.hash for run in runs(written).values()] == [run.hash for run in runs(minimal).values()]


def test_the_default_of_the_warm_start_is_in_the_hash(minimal):
    (run, *_) = runs(minimal).values()
    assert run.model.warm_start.steps == 1600
    minimal["models"]["tiny"]["warm_start"] = {"steps": 0}
    assert next(iter(runs(minimal).values())).hash == run.hash


def test_seeds_are_apart_and_follow_the_cell(minimal):
    minimal["grid"]["seeds"] = [0, 1]
    by_path = runs(minimal)
    seeds = [run.seeds for run in by_path.values()]
    assert all(len(set(each.values())) == 3 for each in seeds)
    assert (
        len({value for each in seeds for value in each.values()}) == 6
    )  # of the cell's seed alone: arms share prompts
    assert all(0 <= value < 2**31 for each in seeds for value in each.values())


def test_the_controllers_draw_from_the_runs_seed(minimal):
    minimal["grid"] |= {"groups": ["sagc"], "seeds": [0, 1]}
    first, second = (run.build_controller() for run in runs(minimal).values())
    assert first.state_dict() != second.state_dict()


def test_the_schema_file_is_the_models(project):
    assert SCHEMA_PATH.read_text(encoding="utf-8") == schema_text(), "run `python -m sagc.config.schema`"
    assert SCHEMA_PATH.is_relative_to(project)


@pytest.mark.parametrize("name", ["config.yaml", "quick.yaml"])
def test_our_configs_are_valid(project, name):
    assert load_grid(project / "config" / name).cells()


def test_every_key_is_described(project):
    text = (project / "config" / "README.md").read_text(encoding="utf-8")
    definitions = GridConfig.model_json_schema()
    sections = [definitions, *(section for section in definitions["$defs"].values() if "properties" in section)]
    described = {word for quoted in re.findall(r"`([^`]*)`", text) for word in re.findall(r"[a-z_]+", quoted)}
    undescribed = {key for section in sections for key in section["properties"]} - described
    assert not undescribed


@pytest.mark.parametrize(
    ("name", "runs"), [("config", 23), ("quick", 2), ("full", 40), ("paper", 32), ("five-seeds", 120)]
)
def test_the_projects_own_configs_are_valid(project, name, runs):
    assert len(load_grid(project / "config" / f"{name}.yaml").cells()) == runs


def test_every_profile_of_the_papers_config_divides_every_ladder(project):
    raw = yaml.safe_load((project / "config" / "paper.yaml").read_text(encoding="utf-8"))
    raw["grid"]["groups"] = [4, 8, 16, "sagc", "sagc-robust"]
    gpus = {}
    for profile in raw["openrlhf"]["profiles"]:
        raw["openrlhf"]["profile"] = profile
        grid = validate_grid(raw)
        gpus[profile] = next(run for cell in grid.cells() if (run := grid.run(cell)).openrlhf).openrlhf.gpus
    assert gpus == {"eight-gpus": 8, "one-gpu": 1, "two-nodes": 16}


def test_the_profile_is_no_part_of_a_run_on_the_other_stack(minimal):
    """So that a change of the machine does not train the vanilla runs again."""
    first = validate_grid(minimal)
    put(minimal, "openrlhf", {"profile": "x", "profiles": {"x": {"device": "cuda"}}})
    second = validate_grid(minimal)
    one, other = (grid.run(grid.cells()[0]) for grid in (first, second))
    assert one.hash == other.hash and "openrlhf" not in one.model_dump()


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        ({"device": "tpu"}, "openrlhf.profiles.x.device is 'tpu': input should be 'cpu' or 'cuda'"),
        ({"device": "cuda", "actors": 2, "colocate": True}, "nodes x actors is 2, engines x tensor_parallel is 1"),
        ({"device": "cpu", "colocate": True}, "colocate shares the memory of GPUs; device: cpu has none"),
        ({"device": "cuda", "nodes": 2}, "nodes is 2, which needs the ray_address of a running cluster"),
        ({"device": "cuda", "zero_stage": 4}, "openrlhf.profiles.x.zero_stage is 4"),
        ({"device": "cuda", "gpus": 4}, "unknown key openrlhf.profiles.x.gpus; allowed here are device, nodes, actors"),
    ],
)
def test_a_profile_that_cannot_work_is_refused(minimal, profile, sentence):
    put(minimal, "openrlhf", {"profile": "x", "profiles": {"x": profile}})
    assert sentence in refusal(minimal)


def test_a_profile_that_does_not_exist_is_refused(minimal):
    put(minimal, "grid.stacks", ["openrlhf"])
    put(minimal, "openrlhf", {"profile": "gpu"})
    assert refusal(minimal).endswith("unknown openrlhf.profile 'gpu'; openrlhf.profiles are cpu")
