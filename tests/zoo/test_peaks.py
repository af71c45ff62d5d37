"""Products of 2 x 4096³ operations on an H100: each is held against the peak of its own precision, and nothing above
that peak is shown without the doubt."""

import pytest
import synthetic as zoo
from test_synthetic import ask

FLOPS = 2 * 4096**3
TF32 = "cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4"
FP8 = "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_qgmma"
BF16 = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


def products(kernel, dtype, duration_us, operator="aten::mm"):
    p = zoo.Program("NVIDIA H100 80GB HBM3", (9, 0))
    for i in range(5):
        at = i * 1000
        p.step(i + 1, at, 1000)
        p.host(operator, at + 8, 20, **{"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": [dtype, dtype]})
        p.launch(kernel, at + 10, at + 40, duration_us)
    return p


@pytest.mark.parametrize(
    ("kernel", "dtype", "operator", "precision", "peak"),
    [
        (TF32, "float", "aten::mm", "tf32", 494.7e12),
        (BF16, "c10::BFloat16", "aten::mm", "fp16", 989.4e12),
        (FP8, "c10::Float8_e4m3fn", "aten::_scaled_mm", "fp8", 1978.9e12),
    ],
)
def test_each_precision_has_its_own_peak(tmp_path, kernel, dtype, operator, precision, peak):
    """Half a millisecond: 275 TFLOP/s, which is four times the peak of FP32."""
    rows, notes = ask(tmp_path, products(kernel, dtype, 500, operator), "roofline")
    (row,) = rows
    assert row["precision"] == precision
    assert row["peak_pct"] == pytest.approx(100 * FLOPS / 500e-6 / peak, rel=1e-3)
    assert not any("above 100 %" in n for n in notes), notes


@pytest.mark.parametrize(("question", "column"), [("roofline", "peak_pct"), ("mfu", "mfu_pct")])
def test_nothing_above_a_peak_without_doubt(tmp_path, question, column):
    """A tenth of a millisecond: 1374 TFLOP/s are 278 % of what TF32 can do. A step takes ten times as long."""
    program = products(TF32, "float", 100)
    for e in program.events:
        if e["name"].startswith("ProfilerStep"):
            e["dur"] = 150
    rows, notes = ask(tmp_path, program, question)
    assert rows and all(r[column] > 100 for r in rows), rows
    assert any("above 100 %" in n and "is wrong there" in n for n in notes), notes
