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

@test "chaos trials that run at the same time leave each other's processes alone" {
	local each rc=0
	out=$(PARALLEL=3 N=3 SEED=1 WAY=one KIND='guard stop' KEEP=$T/kept \
		LOG=$T/log CHAOS_PLANT=process \
		"$BATS_TEST_DIRNAME/../chaos/run") || rc=$?
	! has "$out" '^chaos: left out' >/dev/null || skip "$out"
	[ "$rc" -eq 1 ]
	each='import json, sys
for line in sys.stdin: print(*json.loads(line)["violations"])'
	python3 -c "$each" <"$T/log" >"$T/violations"
	[ "$(grep -cx "\['process', 'tail: tail -f /dev/null (.)'\]" \
		"$T/violations")" -eq 3 ]
}

# It has that name while it forks the guard.
@test "chaos does not take an agent for its guard" {
	local kinds
	kinds='import hosts
def process(pid, parent, name, line):
    p = object.__new__(hosts.Process)
    p.pid, p.parent, p.name, p.line = pid, parent, name, line
    return p
far = process(2, 1, "ddprun", "ddprun --remote-end 1")
for above in process(2, 1, "host", "host exec 9 ddprun prog"), far:
    for name in "ddprun", "ddp-guard":
        all = [above, process(3, 2, name, "ddprun prog"),
               process(4, 3, "ddp-guard", "ddprun prog")]
        print(*[p.kind(all) for p in all[1:]])'
	cd "$BATS_TEST_DIRNAME/../chaos"
	[ "$(python3 -Bc "$kinds" | uniq)" = 'agent guard' ]
}
