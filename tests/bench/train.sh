# train.sh: seconds of an epoch of 60,000 samples, ours and PyTorch's. Each
# round runs every candidate once, for two epochs, of which the second counts. With two
# threads each, PyTorch and OpenBLAS would compete for two CPUs: OpenBLAS gets one.

# ours MODEL RANKS: seconds of the second epoch
ours() {
	rm -rf "$work/run"
	OMP_NUM_THREADS=1 "$O/ddprun" --standalone --nproc-per-node "$2" \
		"$O/mnist_$1" --epochs 2 --log-dir "$work/run" \
		${DDP_TEST_DATA:+--data "$DDP_TEST_DATA/mnist"} >/dev/null
	grep -o '"seconds":[0-9.e+-]*' "$work/run/metrics.jsonl" | tail -n 1 | cut -d: -f2
}

# torch MODEL HOW PROCESSES OMP OPENBLAS
torch() {
	OMP_NUM_THREADS=$4 OPENBLAS_NUM_THREADS=$5 "$python" \
		"$here/train_torch.py" "$1" "$2" "$3" 2 2>/dev/null | tail -n 1
}

train_round() {
	ours "$1" 1 >>"$work/$1.ours1"
	ours "$1" 2 >>"$work/$1.ours2"
	[ -n "$python" ] || return 0
	for how in loader prebatched; do
		torch "$1" $how 1 1 1 >>"$work/$1.one.$how"
		torch "$1" $how 1 2 1 >>"$work/$1.two.omp2.$how"
		torch "$1" $how 2 1 1 >>"$work/$1.two.ddp.$how"
	done
}

# best FILE...: the smallest median of these files
best() {
	for f in "$@"; do median <"$f"; done | sort -g | head -n 1
}

bench_train() {
	python=$(torch_with_blas)
	ours mlp 1 >/dev/null # images are decoded, or drawn, once
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		train_round mlp
		train_round ae
		r=$((r + 1))
	done
	for m in mlp ae; do
		say "mnist_$m, seconds of an epoch, medians of $ROUNDS"
		one=$(median <"$work/$m.ours1")
		two=$(median <"$work/$m.ours2")
		echo "ours, 1 rank x 1 thread            $one"
		echo "ours, 2 ranks x 1 thread           $two"
		[ -n "$python" ] || continue
		for f in "$work/$m".one.* "$work/$m".two.*; do
			printf 'PyTorch %-26s %s\n' "${f##*/"$m".}" "$(median <"$f")"
		done
		echo "ratio to PyTorch's best with 1 thread:      $(ratio "$one" "$(best "$work/$m".one.*)")"
		echo "ratio to PyTorch's best run on two cores:   $(ratio "$two" "$(best "$work/$m".two.*)")"
	done
}
bench_train
