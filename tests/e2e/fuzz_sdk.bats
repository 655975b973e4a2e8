# covers: worker-sdk/api worker-sdk/comm worker-sdk/math worker-sdk/shm
# covers: worker-sdk/tcp
bats_require_minimum_version 1.5.0
load ../lib

# libddp against an independent reference: random operations on random worlds, with
# mistakes and killed ranks (tests/fuzz_sdk). A failure prints how to repeat its seed.

@test "random calls match a reference, mistakes are named, deaths are detected" {
	DEADLINE=400 FUZZ_SECONDS=${FUZZ_SECONDS:-20} expect 0 fuzz_sdk
}
