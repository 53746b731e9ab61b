#!/bin/sh
# What carries the result: both parts, the search alone, one draw alone; on every data set that is here, for the paper's
# network, an mlp and boosting, three seeds each. A run that was cut off goes on when this is started again.
#   nice sh benchmarks/ablation.sh [folder]
set -e
for kind in paper mlp boosting; do
    OMP_NUM_THREADS=1 "${PYTHON:-python}" -m fcxplain bench run --methods fcx,fcx-search,fcx-draw \
        --classifier "$kind" --limit-rows 1000 --quiet --out "${1:-benchmarks/results-ablation}/$kind"
done
