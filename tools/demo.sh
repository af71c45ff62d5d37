#!/bin/bash
# make demo: record examples/train_cnn.py, report on the recording, check that the report names the planted cause.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p demo-out
trace=demo-out/train_cnn.json.gz

echo "demo: training a small CNN for 20 steps, five of them recorded"
.venv/bin/python examples/train_cnn.py --profile "$trace" 2>demo-out/train.log || { cat demo-out/train.log; exit 1; }
echo "demo: .venv/bin/tachograph report $trace"
echo
.venv/bin/tachograph report "$trace"
share=$(.venv/bin/tachograph ask "$trace" steps --by summary --where 'step = "mean"' --json |
  .venv/bin/python -c 'import json,sys; t=json.load(sys.stdin); c=[x["name"] for x in t["columns"]]; r=dict(zip(c,t["rows"][0])); print(round(100*r["dataloader_ns"]/r["total_ns"]))')
echo
echo "The answer: the data loader takes $share % of every step; the model waits for it. Next:"
echo "  .venv/bin/python examples/train_cnn.py --fixed                        the cure; compare the ms a step"
echo "  .venv/bin/tachograph ask $trace stacks --limit 10     which lines of Python it spends"
echo "  .venv/bin/tachograph ask $trace steps                 every step, part by part"
echo "  .venv/bin/tachograph questions                                        everything else one can ask"
