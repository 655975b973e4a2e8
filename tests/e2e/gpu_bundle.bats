# covers: worker-sdk/nccl trainers/cuda
bats_require_minimum_version 1.5.0
load ../lib
load ../gpu_bundle

# The bundle, and its parts about NCCL, on the stand-ins for CUDA and NCCL: no mistake in
# a script is to cost time on a GPU. gpu_bundle_trainers.bats has the other parts.

@test "a bundle has what the programs need, but neither libc nor NVIDIA's libraries" {
	pack 0 bundle "$O/standin" "$ops"
	[ "$(tail -n 1 <<<"$out")" = "bundle: $T/bundle" ]
	compgen -G 'bundle/lib/libdnnl.so.*'
	run ! compgen -G 'bundle/lib/libc.so*'
	run ! compgen -G 'bundle/lib/libcuda*'
	run ! compgen -G 'bundle/lib/libnccl*'
	# again into the same folder
	pack 0 bundle "$O/standin" "$ops"
	mkdir other
	pack 1 other "$O/standin" "$ops"
	has "$err" 'other exists, and is no bundle: name another'
	pack 1 new /nowhere "$ops"
	has "$err" '/nowhere/gpu_check is missing: build with CUDA, cuDNN and NCCL'
	[ ! -e new ]
}

@test "part 3 runs: ranks that share the GPU" {
	part 3
	has "$out" '^ok +[0-9]+ s  2 ranks gpu_check kill 1$'
}

@test "part 4 runs: NCCL beside libddp" {
	part 4
	has "$out" '^ +4096 +1024 +awaited '
}

@test "a part reports what fails and what did not fit, and why there is no GPU" {
	bundle
	STANDIN_FAIL=ncclCommSplit:1 expect 1 bundle/gpu/part 3 results
	has "$out" '^FAILED +[0-9]+ s  2 ranks gpu_check groups: exit status 1: '
	has "$out" '^part 3: [0-9]+ ok, [1-9][0-9]* failed, 0 left out$'
	LIMIT=4 expect 0 bundle/gpu/part 3 results
	has "$out" '^left out       2 ranks gpu_check messages$'
	has "$out" '^part 3: 0 ok, 0 failed, [0-9]+ left out$'
	STANDIN_GPUS=0 expect 1 bundle/gpu/part 3 results
	has "$out" '^part 3: no GPU: no CUDA-capable device is detected'
	expect 2 bundle/gpu/part 5
	has "$err" '^Usage: gpu/part 1\|2\|3\|4'
}
