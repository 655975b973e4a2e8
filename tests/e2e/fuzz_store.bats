# The store against a model: random requests of eight clients in both protocols, a
# killed server, dropped connections; each key's history must be linearizable
# (tests/fuzz_store, docs/testing.md).
# covers: rendezvous/store rendezvous/journal rendezvous/torch rendezvous/server
# covers: rendezvous/recovery rendezvous/client
load ../lib

@test "the store's answers are linearizable" {
	DEADLINE=250 FUZZ_RUN_SECONDS=14 expect 0 \
		sh "$BATS_TEST_DIRNAME/../fuzz_store/run" "${FUZZ_SECONDS:-0}"
	has "$out" ' 3 kills, .* 0 not linearizable$'
}
