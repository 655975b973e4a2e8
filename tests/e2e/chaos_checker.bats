# The checker of tests/chaos must find violations that tests/chaos/planted plants into
# the records of real trials, and into trials (docs/testing.md).
# covers: tests/chaos
load ../lib

@test "the checker finds each kind of violation planted into a chaos trial" {
	DEADLINE=250 expect 0 "$BATS_TEST_DIRNAME/../chaos/planted"
	! has "$out" '^left out' >/dev/null || skip "$out"
	has "$out" '^two causes: cause$'
}

@test "a seed of chaos reproduces its plans, and another seed gives other plans" {
	local plans first
	plans='import plan, sys
for i in range(50): print(plan.draw_plan(sys.argv[1], i))'
	cd "$BATS_TEST_DIRNAME/../chaos"
	first=$(python3 -Bc "$plans" 7 | sha256sum)
	[ "$(python3 -Bc "$plans" 7 | sha256sum)" = "$first" ]
	[ "$(python3 -Bc "$plans" 8 | sha256sum)" != "$first" ]
}
