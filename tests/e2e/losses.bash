# losses.bash: starts trainers, and compares the losses and loss scales of two runs.

# ddprun of N workers
job() {
	local n=$1
	shift
	"$DDPRUN" --standalone --nproc-per-node "$n" "$@"
}

resnet8() { # RANKS ARGUMENT...: on few small images
	local n=$1
	shift
	job "$n" resnet --synthetic --image-size 8 --batch-size 8 --lr 0.01 "$@"
}

losses() {
	sed -n 's/^{"step":\([0-9]*\),.*"loss":\([^,}]*\)}$/\1 \2/p' "$1/metrics.jsonl"
}

scales() { # DIR: step, scale, steps skipped so far
	sed -n 's/^{"step":\([0-9]*\),.*"loss_scale":\([^,]*\),"skipped":\([0-9]*\),.*/\1 \2 \3/p' \
		"$1/metrics.jsonl"
}

# near A B LIMIT [N]: the (first N) losses of two runs, at most LIMIT apart
near() {
	local n=${4:-1000000}
	paste -d ' ' <(losses "$1" | head -n "$n") <(losses "$2" | head -n "$n") |
		awk -v limit="$3" '
		{ d = ($2 - $4) / $4; if (d < 0) d = -d; if (!(d <= m)) m = d
		  if ($1 != $3) bad = 1 }
		END { print NR " losses, at most " m " apart"
		      exit !(NR && !bad && m <= limit) }'
}
