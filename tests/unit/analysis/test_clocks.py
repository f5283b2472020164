"""analysis.tables.clocks: wall clocks that other work had a part in are said not to compare."""

import math

import pandas as pd

from analysis.tables.clocks import clock_verdict, uneven_clocks


def runs(*stretches, algorithm="grpo", processor_s=100.0):
    rows = [
        {"model": "tiny", "algorithm": algorithm, "stack": "vanilla", "group": group, "seed": 0}
        | {"wall_s": stretch * processor_s * (i + 1), "processor_s": processor_s * (i + 1)}
        for i, (group, stretch) in enumerate(zip(("4", "8", "16", "sagc"), stretches, strict=False))
    ]
    return pd.DataFrame(rows)


def test_a_run_that_shared_its_processor_is_named():
    (sentence,) = uneven_clocks(runs(1.02, 1.05, 2.5)).values()
    assert sentence.startswith("tiny/grpo/vanilla: wall clocks cannot be compared")
    assert "took 1.02 s in 4/seed0 and 2.50 s in 16/seed0" in sentence


def test_runs_of_any_length_that_had_the_machine_alike_compare():
    assert uneven_clocks(runs(1.02, 1.05, 1.2)) == {}
    assert uneven_clocks(runs(2.4, 2.5, 2.45)) == {}, "all of them waited as long"


def test_each_cell_is_judged_by_itself():
    both = pd.concat([runs(1.0, 1.1), runs(2.0, 2.1, algorithm="dapo")], ignore_index=True)
    assert uneven_clocks(both) == {}
    both.loc[3, "wall_s"] *= 2
    assert list(uneven_clocks(both)) == ["tiny/dapo/vanilla"]


def test_what_was_not_recorded_is_said_and_a_single_run_is_compared_with_nothing():
    table = runs(1.0, 1.0, 1.0)
    table.loc[1, "processor_s"] = math.nan
    (sentence,) = uneven_clocks(table).values()
    assert "1 of 3 runs have no processor time" in sentence
    table["processor_s"] = None
    (sentence,) = uneven_clocks(table).values()
    assert "3 of 3 runs have no processor time" in sentence
    assert uneven_clocks(table.head(1)) == {}


def test_a_verdict_says_what_processor_time_says_where_hours_do_not_compare():
    table = runs(1.0, 1.0, 1.0, 2.0)
    arms = pd.DataFrame({"group": ["4", "8", "16", "sagc"], "processor_s_vs_static16": [0.3, 0.6, 1.0, 0.52]})
    sentence = clock_verdict(uneven_clocks(table), arms)
    assert sentence.startswith("Hours cannot, or may not, be compared in tiny/grpo/vanilla (see below)")
    assert sentence.endswith("relative processor time of the same arms: sagc 0.52.")
    assert clock_verdict(uneven_clocks(runs(1.0, 1.0, 1.0, 1.1)), arms) == ""
