# The model checker of a job's rounds (tests/model, docs/testing.md), for as long as a
# suite can wait: two nodes and one fault are searched as a whole.
# covers: rendezvous/round rendezvous/journal launcher/agent launcher/membership
load ../lib

@test "no interleaving of two nodes and one fault breaks a round" {
	expect 0 "$O/tests/model" --seconds 120 --nodes 2 --faults 1
	[ "$(echo "$out" | grep -c ': all there are')" = 8 ]
}

@test "no interleaving of three nodes, found in 10 seconds, breaks a round" {
	expect 0 "$O/tests/model" --seconds 10 --nodes 3 --faults 1
}
