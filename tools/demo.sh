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
echo
.venv/bin/tachograph ask "$trace" findings --limit 1 --json | .venv/bin/python -c '
import json, sys
answer = json.load(sys.stdin)
names = [column["name"] for column in answer["columns"]]
first = dict(zip(names, answer["rows"][0]))
print("The answer: {cause}, {share_pct:.0f} % of every step, in {where}.".format(**first))
print("            {advice}".format(**first))'
cat <<END
Next:
  .venv/bin/python examples/train_cnn.py --fixed
      the same training, cured: compare the ms a step
  .venv/bin/tachograph ask $trace stacks --limit 10
      the lines of Python that cost most
  .venv/bin/tachograph ask $trace steps
      every step, part by part
  .venv/bin/tachograph questions
      everything else one can ask
END
