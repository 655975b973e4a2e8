# accuracy.sh: the models' accuracy on the real MNIST, over seeds and worlds, and how
# closely they follow PyTorch's own curves.

# losses FILE: the step losses of a metrics.jsonl
losses() {
	sed -n 's/.*"step":[0-9]*.*"loss":\([^,}]*\).*/\1/p' "$1"
}

# deviation A B N: the largest relative difference of the first N lines
deviation() {
	paste "$1" "$2" | head -n "$3" | awk '
		{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > m) m = d }
		END { printf "%.1e", m }'
}

# one MODEL WORLD NAME OPTIONS...: a run; its log goes to $work/NAME
one() {
	model=$1 world=$2 name=$3
	shift 3
	OMP_NUM_THREADS=1 "$O/ddprun" --standalone --nproc-per-node "$world" \
		"$O/mnist_$model" --data "$DDP_TEST_DATA/mnist" \
		--log-dir "$work/$name" "$@" 2>/dev/null | tail -n 1
}

bench_seeds() {
	say "mnist_mlp, 5 epochs of MNIST: test accuracy in % (published: 96.40)"
	for w in 1 2 4; do
		for s in 0 1 2 3 4; do
			one mlp $w "seed$s.$w" --epochs 5 --seed $s |
				sed 's/.*test accuracy \([0-9.]*\).*/\1/'
		done >"$work/accuracy.$w"
		echo "world $w: $(tr '\n' ' ' <"$work/accuracy.$w") median $(median <"$work/accuracy.$w")"
		losses "$work/seed0.$w/metrics.jsonl" >"$work/losses.$w"
	done
	for w in 2 4; do
		echo "first 100 step losses, world $w against world 1: at most $(deviation "$work/losses.$w" "$work/losses.1" 100) relative"
	done
}

bench_curves() {
	say "step losses against PyTorch's own, largest relative difference"
	for m in mlp ae; do
		grep -v '^#' "$DDP_TEST_REFERENCE/mnist_$m.losses.txt" |
			awk '{ print $2 }' >"$work/torch"
		for w in 1 2 4; do
			one $m $w "curve.$m.$w" --epochs 1 --seed 0 \
				--init-from "$DDP_TEST_REFERENCE/mnist_$m.init.f32" >/dev/null
			losses "$work/curve.$m.$w/metrics.jsonl" >"$work/curve"
			echo "mnist_$m, world $w: first 100 steps $(deviation "$work/curve" "$work/torch" 100), the epoch $(deviation "$work/curve" "$work/torch" 100000)"
		done
	done
}

if [ -n "${DDP_TEST_DATA:-}" ]; then
	bench_seeds
else
	echo "DDP_TEST_DATA is not set: accuracy on MNIST left out"
fi
if [ -n "${DDP_TEST_DATA:-}" ] && [ -n "${DDP_TEST_REFERENCE:-}" ]; then
	bench_curves
else
	echo "DDP_TEST_REFERENCE is not set: PyTorch's curves left out"
fi
