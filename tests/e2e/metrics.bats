# covers: worker-sdk/api trainers/report
bats_require_minimum_version 1.5.0
load ../lib

# Metrics in their readers' eyes: JSON lines in a JSON parser, event files in
# TensorBoard's own reader if it is installed.

tensorboard_or_skip() {
	for python in ${DDP_TEST_PYTHON:-python3 /usr/bin/python3}; do
		"$python" -c 'import tensorboard' 2>/dev/null && return
	done
	skip "no TensorBoard here"
}

# SCALARS: TensorBoard's view of folder $1, one line a scalar
scalars() {
	"$python" - "$1" <<-'END'
		import sys
		from tensorboard.backend.event_processing.event_accumulator \
		    import EventAccumulator
		a = EventAccumulator(sys.argv[1], {"scalars": 0})
		a.Reload()
		for tag in sorted(a.Tags()["scalars"]):
		    for s in a.Scalars(tag):
		        print(tag, s.step, "%g" % s.value)
	END
}

@test "a JSON parser reads every line" {
	expect 0 c_metrics log
	[ "$(wc -l <log/metrics.jsonl)" = 103 ]
	command -v python3 >/dev/null || skip "no python3 to parse with"
	run -0 python3 - <<-'END'
		import json
		rows = [json.loads(l) for l in open("log/metrics.jsonl")]
		for i, r in enumerate(rows[:100]):
		    assert r["step"] == i and r["tag"] == "loss/train"
		    assert r["value"] == 1 / (i + 1) and r["wall_time"] > 1e9
		odd = [float(r["value"]) for r in rows[100:102]]
		assert odd[0] != odd[0] and odd[1] == float("inf")
		assert rows[102]["tag"] == "g\u00fcte/\u6e2c"
	END
}

@test "TensorBoard reads the scalars, and those before a torn record" {
	local file
	tensorboard_or_skip
	expect 0 c_metrics log
	PYTHONIOENCODING=utf-8 run -0 --separate-stderr scalars log
	[ "${#lines[@]}" = 103 ]
	has "$output" '^loss/train 0 1$'
	has "$output" '^loss/train 99 0.01$'
	has "$output" '^odd -3 nan$'
	has "$output" '^odd 1099511627776 inf$'
	has "$output" '^güte/測 1 0$'
	file=$(echo log/events.out.tfevents.*)
	truncate -s -7 "$file"
	run -0 --separate-stderr scalars log
	[ "${#lines[@]}" = 102 ]
}

@test "a trainer's log folder has events beside metrics.jsonl" {
	expect 0 mnist_mlp --epochs 1 --batch-size 1000 --log-dir log
	ls log/events.out.tfevents.*
	tensorboard_or_skip
	run -0 --separate-stderr scalars log
	has "$output" '^loss/step 60 '
	has "$output" '^accuracy/test 60 '
	[ "$(grep -c '^loss/step ' <<<"$output")" = 60 ]
}
