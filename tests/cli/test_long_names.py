"""Names that do not fit: of a C++ template the name stays, what stands in front of it goes first, then the middle."""

import json
import os
import subprocess

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")
LONG = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
PLAIN = "ampere_sgemm_128x64_tn_with_a_name_that_does_not_fit_into_the_line_of_a_report_of_80_columns_at_all_tail"


def test_the_name_of_a_template_stays(tmp_path):
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": 7,
            "ts": ts,
            "dur": 9,
            "args": {"device": 0, "stream": 7},
        }
        for ts, name in ((0, LONG), (20, PLAIN))
    ]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    command = [TACHOGRAPH, "report", "--width", "80", str(tmp_path / "a.json")]
    page = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    (template,) = [line for line in page.splitlines() if "elementwise" in line]
    assert template.startswith("…vectorized_elementwise_kernel") and "3ul>)" in template
    (plain,) = [line for line in page.splitlines() if "sgemm" in line]
    assert plain.startswith("ampere_sgemm") and "_tail" in plain and "…" in plain
    assert [line for line in (template, plain) if len(line) > 80] == []
