# faults.bash: starts ddprun again and again, with one fault injected each time.
#
#   needs_plain_build   skips the test under a sanitizer, whose own calls would be
#                       counted
#   inject VAR=VALUE... runs tests/faults/run with these variables; fails unless
#                       each run ended as it should; $output has its table

needs_plain_build() {
	[ -z "${SAN:-}" ] || skip "a sanitizer's own calls would be counted"
}

# All that a worker starts has the mark of its test; the runs have their own.
inject() {
	run env -u TEST_COOKIE "$@" "$lib_tests/faults/run"
	echo "$output"
	[ "$status" = 0 ]
}
