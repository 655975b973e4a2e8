# covers: trainers/cuda tests/gpu
bats_require_minimum_version 1.5.0
load ../lib
load ../gpu_bundle

# The bundle's parts about the trainers (gpu_bundle.bats has the rest).

@test "part 1 runs: one rank" {
	with_trainers
	part 1
	has "$out" '^ok +[0-9]+ s  alone: memory$'
	has "$out" '^# recorded: .* images/s$'
}

@test "part 2 runs: beside PyTorch" {
	with_trainers
	part 2
	has "$out" '^ok +[0-9]+ s  PyTorch: max-autotune$'
}
