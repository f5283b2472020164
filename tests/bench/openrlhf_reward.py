"""A reward for OpenRLHF's own hook (--reward.remote_url), as cheap as the embedded task's. For bench_openrlhf.py."""


def reward_func(queries, prompts, labels, **options):
    reward = float(len(set(queries[0])) % 3)
    return {"rewards": reward, "scores": reward, "extra_logs": {}}
