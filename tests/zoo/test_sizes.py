"""Products of bfloat16 on a device whose kernels say how many elements they load at once."""

import synthetic
import tachograph as tg


def found(tmp_path, kernel, inner):
    """30 products of 512 x inner and half a millisecond in each of six steps of 16 ms."""
    p = synthetic.Program()
    for i in range(6):
        at = i * 16000
        p.step(i + 1, at, 16000)
        for k in range(30):
            start = at + 10 + 20 * k
            p.host("aten::linear", start - 4, 12, **{
                "Input Dims": [[4096, inner], [512, inner], []], "Input type": ["c10::BFloat16", "c10::BFloat16", ""],
                "Call stack": "net.py(8): forward;train.py(30): train",
            })  # fmt: skip
            p.launch(kernel, start, at + 700 + 500 * k, 499)
    with tg.open(p.write(tmp_path / "t.json")) as trace:
        return [r for r in trace.ask("findings").to_dicts() if r["cause"] == "unaligned-sizes"]


def test_kernels_of_one_element(tmp_path):
    (row,) = found(tmp_path, "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_nn_align1", 509)
    assert row["cost_ns"] == 30 * 499_000 and row["severity"] == "medium"  # half of it, and by no means certain
    assert row["saving_ns"] == 30 * 499_000 // 2
    assert "here 512 x 512. Zeros" in row["advice"] and "align1" in row["evidence"]


def test_kernels_of_eight(tmp_path):
    assert not found(tmp_path, "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_nn_align8", 512)


def test_a_kernel_that_says_nothing(tmp_path):
    (row,) = found(tmp_path, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", 509)
    assert row["severity"] == "low" and row["saving_ns"] is None
