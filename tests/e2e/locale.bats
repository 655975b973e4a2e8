# locale.bats: decimal commas and the Turkish i do not affect input and output.
# covers: base launcher/config
bats_require_minimum_version 1.5.0
load ../lib

# Not UTF-8, which takes four times as long to make.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	command -v localedef >/dev/null || return 0
	localedef -i de_DE -f ISO-8859-1 ./de_DE || true
	localedef -i tr_TR -f ISO-8859-9 ./tr_TR || true
}

setup() {
	lib_setup
	export LOCPATH=$BATS_FILE_TMPDIR
	[ -d "$LOCPATH/tr_TR" ] || skip "no locales can be made here"
}

@test "options accept decimal points under a locale with decimal commas" {
	export LC_ALL=de_DE
	expect 0 ddprun --shutdown-timeout 0.5 --rdzv-conf timeout=1.5 true
	PET_SHUTDOWN_TIMEOUT=2.5 expect 0 ddprun true
	expect 2 ddprun --shutdown-timeout 0,5 true
	has "$err" "^ddprun: error: --shutdown-timeout: '0,5' is not a number"
	expect 3 ddprun --log-dir logs sh -c 'exit 3'
	has "$err" '^.  ran for      [0-9]+\.[0-9]+ s'
	grep -qE '[0-9]\.[0-9]' logs/*/attempt_0/report.json
	run ! grep -qE '": [0-9]+,[0-9]+,' logs/*/attempt_0/report.json
	expect 2 env LC_ALL=tr_TR ddprun --signals-to-handle sigint,nothing true
	has "$err" "'nothing'"
	LC_ALL=tr_TR expect 0 ddprun --signals-to-handle sigint,term \
		--nccl-debug info:init sh -c 'echo $NCCL_DEBUG $NCCL_DEBUG_SUBSYS'
	has "$out" 'INFO INIT'
}

@test "metrics and texts of a worker are correct in its user's locale" {
	export LC_ALL=de_DE
	expect 0 ddprun --log-line-prefix-template '' c_locale metrics
	has "$out" '^1,5$'
	has "$out" '^error 1\.5 s$'
	has "$(cat metrics/metrics.jsonl)" '^\{"step":1,"wall_time":[0-9]+\.[0-9]{6},"tag":"loss","value":0\.25\}$'
}

@test "ddp-plot draws the same picture in another locale" {
	command -v gnuplot >/dev/null || skip "no gnuplot here"
	mkdir run
	for i in 1 2 3 4; do
		echo "{\"step\":$i,\"epoch\":1,\"lr\":0.1,\"loss\":0.$((9 - i))}"
	done >run/metrics.jsonl
	expect 0 ddp-plot -o a.png run
	LC_ALL=de_DE expect 0 ddp-plot -o b.png run
	cmp a.png b.png
}
