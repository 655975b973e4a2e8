# The model checker of a job's rounds (tests/model, docs/testing.md), for as long as a
# suite can wait: two nodes and one fault are searched as a whole, but for one setup.
# covers: rendezvous/round rendezvous/journal launcher/agent launcher/membership
load ../lib

@test "the model checker prints the state tables that it searches" {
	expect 0 "$O/tests/model" --tables
	has "$out" '^JOINING +[a-z]+ +-> '
	has "$out" '^CLOSED +close +-> CLOSED +nothing$'
	has "$out" '^OVER +EXITED +nothing$'
}

@test "no interleaving of two nodes and one fault breaks a round" {
	local setups="static-2 static-2-restart static-2-in-vain spare-2-swap elastic-2
		elastic-2-restart spare-2-restart"
	expect 0 "$O/tests/model" --seconds 120 --faults 1 $setups
	[ "$(echo "$out" | grep -c ': all there are')" = 7 ]
}

@test "no interleaving of futile restarts, found in 10 seconds, breaks a round" {
	expect 0 "$O/tests/model" --seconds 10 --faults 1 elastic-2-in-vain
}

@test "no interleaving of three nodes, found in 10 seconds, breaks a round" {
	expect 0 "$O/tests/model" --seconds 10 --nodes 3 --faults 1
}
