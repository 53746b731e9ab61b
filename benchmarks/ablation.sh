#!/bin/sh
# What carries the result: both parts, the search alone, one draw alone; on every data set that is here, for the paper's
# network, an mlp and boosting, three seeds each, samples of 10,000 rows. A run that was cut off goes on when this is
# started again.
#   nice sh benchmarks/ablation.sh [folder]
#   fcxplain bench report --results benchmarks/results-ablation --out ablation --page docs/method.md
set -e
for kind in paper mlp boosting; do
    OMP_NUM_THREADS=1 "${PYTHON:-python}" -m fcxplain bench run --methods fcx,fcx-search,fcx-draw \
        --classifier "$kind" --rows 10000 --limit-rows 300 --quiet --out "${1:-benchmarks/results-ablation}"
done
