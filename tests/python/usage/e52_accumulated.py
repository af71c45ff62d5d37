"""Events of all cycles together, and metadata of the job in the file."""

import shim
import json
import torch
import tachograph as tg

prof = tg.profile(schedule=tg.schedule(wait=1, warmup=1, active=1, repeat=3), acc_events=True)
prof.preset_metadata_json("job", json.dumps({"name": "nightly"}))
with prof:
    for _ in range(9):
        torch.ones(4).tanh()
        prof.step()
    prof.add_metadata("note", "all three cycles")
print({row.key: row.count for row in prof.key_averages()}["aten::tanh"])
prof.export_chrome_trace("last.json.gz")
