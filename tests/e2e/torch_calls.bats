# ddprun dump asks PyTorch in running workers for its calls.
# covers: launcher/inspect/torch_calls.c launcher/output/logdir.c
load ../lib

pipe_py=$BATS_TEST_DIRNAME/../programs/workers/torch_pipe.py
job=torch.calls.$$

# trace_of FILE: a trace of NCCL, as protocol 2: one call has completed, one has not.
trace_of() {
	python3 - "$1" <<-'P'
	import pickle, sys, time
	def entry(n, state):
	    return {"record_id": n, "pg_id": 0, "collective_seq_id": n, "p2p_seq_id": 0,
	            "op_id": n, "is_p2p": False, "process_group": ("0", "default_pg"),
	            "profiling_name": "nccl:all_reduce", "state": state,
	            "time_created_ns": time.time_ns() - 5000000000,
	            "retired": state == "completed",
	            "input_sizes": [[4096]], "input_dtypes": ["BFloat16"],
	            "output_sizes": [[4096]], "output_dtypes": ["BFloat16"],
	            "frames": [{"filename": "/home/u/train.py", "line": 88, "name": "step"}]}
	trace = {"version": "2.10", "pg_status": {},
	         "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
	         "entries": [entry(1, "completed"), entry(2, "scheduled"),
	                     entry(3, "scheduled")]}
	with open(sys.argv[1], "wb") as f:
	    pickle.dump(trace, f, protocol=2)
	P
}

@test "dump shows the NCCL calls of PyTorch, which it asks by its pipe" {
	trace_of trace
	start job ddprun --rdzv-id "$job" --nproc-per-node 2 --log-dir all python3 "$pipe_py" trace
	await job.out '^\[0\] ready$'
	await job.out '^\[1\] ready$'
	expect 0 ddprun dump --job "$job" --no-stacks
	has "$out" '^  PyTorch: in all_reduce #2 \(BFloat16 \[4096\]\) for [0-9.]+ s at .*train\.py:88'
	has "$out" '^ +[0-9.]+ s ago  done       all_reduce #1 \(BFloat16 \[4096\]\)$'
	[ "$(grep -c '^  PyTorch: in ' <<<"$out")" = 2 ]
	# a second time, over the first answer
	expect 0 ddprun dump --job "$job" --no-stacks --last 1 --json
	has "$out" '"pytorch_calls":	\[\{'
	has "$out" '"call":	"all_reduce #2 \(BFloat16 \[4096\]\)"'
	has "$out" '"call":	"all_reduce #3 \(BFloat16 \[4096\]\)"'
	lacks "$out" 'all_reduce #1 '
	has "$out" '"state":	"under_way"'
	signal job TERM
	finish job -
	[ -z "$(find all -type p)" ] # the pipes are gone; the calls are not
	[ -s all/*/attempt_0/fr_trace_1 ]
	nothing_left
}

@test "dump goes on if PyTorch does not answer, and asks no worker without a pipe" {
	start job ddprun --rdzv-id "$job" --nproc-per-node 2 --log-dir all python3 "$pipe_py"
	await job.out '^\[0\] ready$'
	await job.out '^\[1\] ready$'
	expect 0 ddprun dump --job "$job" --no-stacks
	has "$out" '^  PyTorch has not written its calls within 5 s$'
	signal job TERM
	finish job -
	# without log files there is no place for its calls
	start job ddprun --rdzv-id "$job" python3 -c 'import os, sys, time
print("TORCH_NCCL_DEBUG_INFO_PIPE_FILE" in os.environ, flush=True)
time.sleep(600)'
	await job.out '^\[0\] False$'
	expect 0 ddprun dump --job "$job" --no-stacks
	lacks "$out" PyTorch
	signal job TERM
	finish job -
}

@test "dump reports an answer of PyTorch that it cannot read" {
	echo nonsense >trace
	start job ddprun --rdzv-id "$job" --log-dir all python3 "$pipe_py" trace
	await job.out '^\[0\] ready$'
	expect 0 ddprun dump --job "$job" --no-stacks
	has "$out" '^  not a pickle of plain data, or truncated$'
	expect 0 ddprun dump --job "$job" --no-stacks --json
	has "$out" '"no_pytorch_calls":	"not a pickle of plain data, or truncated"'
	signal job TERM
	finish job -
}

@test "dump reads the calls of a real PyTorch" {
	torch_or_skip
	start job ddprun --rdzv-id "$job" --nproc-per-node 2 --log-dir all "$pipe_py" gloo
	await job.out '^\[0\] ready$' 120
	await job.out '^\[1\] ready$' 120
	expect 0 ddprun dump --job "$job" --no-stacks
	has "$out" '^  PyTorch: in all_reduce #.* at .*torch_pipe\.py:[0-9]+'
	has "$out" ' done       all_reduce #'
	[ "$(grep -c '^  PyTorch: in ' <<<"$out")" = 1 ]
	signal job TERM
	finish job -
}
