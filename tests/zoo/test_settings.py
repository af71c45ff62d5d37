"""Beside advice stand the settings that it begins from, where the recording has them."""

import synthetic
import tachograph as tg

RECORDED = {"torch": "2.13.0", "cpu_cores": 8, "matmul_precision": "highest", "allocator": None}


def advice(tmp_path, cause, program, conditions):
    if conditions is not None:
        program.members["conditions"] = conditions
    with tg.open(program.write(tmp_path / "t.json")) as trace:
        (row,) = (r for r in trace.ask("findings").to_dicts() if r["cause"] == cause)
    return row["advice"]


def products():
    return synthetic.steady(name="ampere_sgemm_128x64_nn")


def churn():
    """Each step waits for cudaMalloc."""
    p = synthetic.Program()
    for i in range(6):
        at = i * 20000
        p.step(i + 1, at, 20000)
        p.launch("gemm", at + 10, at + 1000, 12000, op="aten::mm")
        p.host("cudaMalloc", at + 13500, 6000, "cuda_runtime")
        p.launch("gemm", at + 19600, at + 19700, 200, op="aten::mm")
    return p


def test_precision_of_products(tmp_path):
    cause = "mixed-precision-unused"
    assert advice(tmp_path, cause, products(), RECORDED).endswith('("high"). Now: float32_matmul_precision=highest.')
    assert "Now:" not in advice(tmp_path, cause, products(), None)
    assert "Now:" not in advice(tmp_path, cause, products(), {"torch": "2.13.0"})


def test_allocator(tmp_path):
    assert advice(tmp_path, "allocator-churn", churn(), RECORDED).endswith(" Now: PYTORCH_CUDA_ALLOC_CONF=unset.")
    set_to = RECORDED | {"allocator": "expandable_segments:True,max_split_size_mb:128" + 60 * "x"}
    assert advice(tmp_path, "allocator-churn", churn(), set_to).endswith(
        " Now: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128" + 14 * "x" + "."
    )
    assert "Now:" not in advice(tmp_path, "allocator-churn", churn(), {"cpu_cores": 8})
