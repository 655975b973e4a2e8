# resnet.sh: images a second of ResNet-18 with the cifar stem, global batch 128,
# fp32, ours and PyTorch's. Each round runs every candidate once, and counts
# BENCH_STEPS=6 steps after the first ones.

steps=${BENCH_STEPS:-6}

# ours RANKS THREADS BATCH OPTIONS...
ours() {
	ranks=$1 threads=$2 batch=$3 # of all ranks
	shift 3
	OMP_NUM_THREADS=$threads "$O/ddprun" --standalone \
		--nproc-per-node "$ranks" "$O/resnet" --arch resnet18 \
		--stem cifar --synthetic --image-size 32 --device cpu \
		--steps $((steps + 2)) --batch-size "$batch" "$@" 2>/dev/null |
		sed -n 's|.* images/s .*, \([0-9.]*\) ms a step.*|\1|p' |
		awk -v batch="$batch" '{ v = 1000 * batch / $1 }
			END { if (NR) printf "%.2f\n", v }'
}

# torch LAYOUT PROCESSES THREADS
torch() {
	OMP_NUM_THREADS=$3 OPENBLAS_NUM_THREADS=1 "$python" \
		"$here/resnet_torch.py" "$1" "$2" "$steps" 2>/dev/null | tail -n 1
}

resnet_round() {
	ours 1 1 64 >>"$work/resnet.ours.1x1"
	ours 1 2 128 >>"$work/resnet.ours.1x2"
	ours 2 1 128 >>"$work/resnet.ours.2x1"
	ours 1 2 128 --precision bf16 >>"$work/resnet.bf16.1x2"
	[ -n "$python" ] || return 0
	for layout in channels_last contiguous; do
		torch $layout 1 2 >>"$work/resnet.torch.1x2.$layout"
		torch $layout 2 1 >>"$work/resnet.torch.2x1.$layout"
	done
}

# most FILE...: the greatest median of these files
most() {
	for f in "$@"; do median <"$f"; done | sort -gr | head -n 1
}

bench_resnet() {
	python=$(torch_python)
	[ -n "$python" ] || echo "not installed, left out: PyTorch (python3-torch)"
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		resnet_round
		r=$((r + 1))
	done
	say "ResNet-18, cifar stem, batch 128, images a second, medians of $ROUNDS"
	for f in "$work"/resnet.*; do
		printf '%-28s %s\n' "${f##*/resnet.}" "$(median <"$f")"
	done
	for how in 1x2 2x1; do
		[ -n "$python" ] || continue
		echo "ratio to PyTorch's better layout, ranks x threads $how: $(ratio \
			"$(median <"$work/resnet.ours.$how")" \
			"$(most "$work/resnet.torch.$how".*)") (goal 1.1)"
	done
	echo "2 ranks x 1 thread against 1 x 1 with half the batch: $(ratio \
		"$(median <"$work/resnet.ours.2x1")" \
		"$(median <"$work/resnet.ours.1x1")") (goal 1.9)"
	echo "bf16 against fp32, 1 rank x 2 threads: $(ratio \
		"$(median <"$work/resnet.bf16.1x2")" \
		"$(median <"$work/resnet.ours.1x2")") (goal 1.8 where there is AMX)"
}
bench_resnet
