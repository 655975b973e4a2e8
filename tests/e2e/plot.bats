# plot.bats: ddp-plot draws the runs in --log-dir, or reports why it cannot.
# covers: trainers/ddp-plot

bats_require_minimum_version 1.5.0
load ../lib

setup() {
	lib_setup
	command -v gnuplot >/dev/null || skip "no gnuplot here"
}

# a run of N steps, and two epochs
run_of() {
	local i
	mkdir -p "$1"
	for ((i = 1; i <= $2; i++)); do
		echo "{\"step\":$i,\"epoch\":1,\"lr\":0.1,\"loss\":$((100 / i)).5}"
	done >"$1/metrics.jsonl"
	printf '{"epoch":%d,"steps":%d,"train_loss":1,"test_loss":%s,"test_accuracy":9%d.5,"seconds":1,"samples_per_second":5e3}\n' \
		1 $(($2 / 2)) 0.75 2 2 "$2" 0.5 6 >>"$1/metrics.jsonl"
}

# shape FILE: "900 1200", of a PNG
shape() {
	[ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ]
	od -An -j 16 -N 8 -tu1 "$1" |
		awk '{ print $3 * 256 + $4, $7 * 256 + $8 }'
}

@test "runs with any name become one PNG of four panels" {
	run_of "it's a run" 20
	run_of '$(touch bad); "2"' 10
	expect 0 ddp-plot "it's a run" '$(touch bad); "2"/'
	[ -z "$out$err" ]
	[ "$(shape ddp-plot.png)" = "900 1200" ]
	[ ! -e bad ]
	cp ddp-plot.png two.png
	# another picture with another run, the same with the same
	expect 0 ddp-plot -o one.png "it's a run/metrics.jsonl"
	run ! cmp -s one.png two.png
	[ "$(shape one.png)" = "900 1200" ]
}

@test "panels without values are omitted" {
	run_of run 8
	grep '"step"' run/metrics.jsonl >steps
	# a torn line, a loss that is none
	{ cat steps; echo '{"step":9,"epoch":1,"lr":0.1,"loss":null}'
		printf '{"step":10,"lo'; } >run/metrics.jsonl
	expect 0 ddp-plot -o x.png run
	[ "$(shape x.png)" = "900 300" ]
	[ -z "$err" ]
}

@test "a plot that fails is an error, and leaves no file" {
	expect 2 ddp-plot
	has "$err" '^ddp-plot: error: no run to plot'
	expect 2 ddp-plot --bogus x
	has "$err" 'unknown option --bogus'
	expect 2 ddp-plot -o
	expect 66 ddp-plot nowhere
	has "$err" '^ddp-plot: error: nowhere has no metrics: cannot read nowhere'
	mkdir empty
	expect 66 ddp-plot empty
	has "$err" 'cannot read empty/metrics.jsonl'
	: >empty/metrics.jsonl
	expect 65 ddp-plot empty
	has "$err" 'has no steps or epochs yet'
	run_of run 4
	expect 73 ddp-plot -o nowhere/x.png run
	has "$err" 'cannot write nowhere/x.png'
	[ ! -e ddp-plot.png ]
	[ -z "$(ls -d "$TMPDIR"/tmp.* 2>/dev/null)" ]
	PATH=$O expect 69 "$(command -v sh)" "$O/ddp-plot" run
	has "$err" 'gnuplot is not installed'
}
