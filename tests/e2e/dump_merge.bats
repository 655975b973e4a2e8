# ddprun dump --merge: compares what the ranks of a job recorded, after its end.
# covers: launcher/inspect/merge.c launcher/traces launcher/worker/recorder.c
load ../lib

# fail_in MODE: two nodes of two ranks, in which rank 1 misbehaves; the logs of each
# are in a folder of its own, as on hosts that share no disk.
fail_in() {
	local n
	at=127.0.0.1:$(w_port free)
	for n in 0 1; do
		start $n "${deaf[@]}" ddprun --rdzv-id "merge.$1" --nnodes 2 \
			--node-rank $n --nproc-per-node 2 --rdzv-endpoint "$at" \
			--log-dir "all/$n" c_fault "$1" 1
	done
	finish 0 -
	finish 1 -
}

@test "merge shows the first call in which the ranks of two nodes differ" {
	fail_in differ
	expect 0 ddprun dump --merge all
	has "$out" "^job 'merge.differ', attempt 1, round 0 \(libddp\): 4 of 4 ranks$"
	has "$out" '^rank 1 \(.*\): broadcast #3 \(i64 x 7, root 0\), entered [0-9.]+ s earlier, failed$'
	has "$out" '^mismatch: ranks made different calls$'
	has "$out" '^  all_reduce #3 \(f32 x 40000, avg\): ranks 0, 2, 3$'
	has "$out" '^  broadcast #3 \(i64 x 7, root 0\): rank 1$'
	lacks "$out" '^no record of '
	expect 0 ddprun dump --merge all --json
	has "$out" '"findings":	\["mismatch: ranks made different calls", '
	# the file holds no secret of the job
	lacks "$(strings -a all/*/*/attempt_0/recorder_0 2>/dev/null)" '[0-9a-f]{32}'
	# without the second node's files
	rm -r all/1
	expect 0 ddprun dump --merge all
	has "$out" '2 of 4 ranks$'
	has "$out" '^no record of ranks 2, 3$'
}

@test "merge names the rank that others waited for when their timeout expired" {
	DDP_TIMEOUT=2 fail_in late
	expect 0 ddprun dump --merge all
	has "$out" '^rank 1 \(.*\): between calls; last: all_reduce #2 '
	has "$out" '^3 of 4 ranks have reached all_reduce #3 \(f32 x 40000, avg\); missing: rank 1 \(.*\)$'
	lacks "$out" '^mismatch'
}

@test "each attempt of a job that is restarted has its records" {
	expect - ddprun --max-restarts 1 --nproc-per-node 2 --log-dir all c_fault kill 1
	expect 0 ddprun dump --merge all
	has "$out" "^job 'none', attempt 1, round 0 \(libddp\): 2 of 2 ranks$"
	has "$out" "^job 'none', attempt 2, round 1 \(libddp\): 2 of 2 ranks$"
	# a job that succeeds has none
	expect 0 ddprun --log-dir good true
	expect 1 ddprun dump --merge good
	has "$err" '^ddprun: error: no file below good has recorded calls: '
}

@test "merge names JSON files with calls that it does not read" {
	expect - ddprun --nproc-per-node 2 --log-dir all c_fault kill 1
	start job ddprun --rdzv-id json --nproc-per-node 2 c_fault on 0
	await job.out goes.on
	ddprun dump --json --no-stacks >all/h1.json
	# its workers ignore SIGTERM
	signal job KILL
	finish job -
	echo '{"entries": [], "pg_config": {}, "version": "2.9"}' >all/torch.json
	expect 0 ddprun dump --merge all
	has "$out" "^job 'none', attempt 1, round 0 "
	has "$err" '^ddprun: warning: all/h1.json is left out: the output of .ddprun dump --json., which has compared the ranks of all nodes itself: read its findings$'
	has "$err" '^ddprun: warning: all/torch.json is left out: a trace of PyTorch as JSON; '
	lacks "$err" 'report.json'
}

@test "merge leaves out files that are cut, damaged or duplicated, and reports them" {
	expect - ddprun --nproc-per-node 2 --log-dir all c_fault kill 1
	local file
	file=$(echo all/*/attempt_0/recorder_0)
	mkdir more
	cp "$file" more/again
	head -c 5000 "$file" >more/cut
	head -c 8 "$file" >more/damaged
	printf '\x80\x02}q' >more/trace_0
	echo '{' >more/text
	ln -s . more/loop
	mv more all/more
	expect 0 ddprun dump --merge all
	has "$out" '2 of 2 ranks$'
	has "$err" 'more/cut is left out: a truncated flight recorder$'
	has "$err" 'more/damaged is left out: a flight recorder that is damaged, '
	has "$err" 'more/trace_0 is left out: not a pickle of plain data, or truncated$'
	has "$err" ' is left out: rank 0 of .* is also in another file; '
	[ "$(wc -l <<<"$err")" = 4 ]
	expect 71 ddprun dump --merge nowhere
	has "$err" 'cannot read nowhere: No such file or directory'
	expect 2 ddprun dump --merge all --here
	has "$err" '^ddprun: error: --merge reads files and cannot be combined with '
}

# trace RANK CALL...: a trace as PyTorch's NCCL backend leaves it; a call is
# NAME:NUMBER:STATE[:GROUP].
trace() {
	mkdir -p "attempt_0"
	python3 - "$@" <<-'P'
	import pickle, sys
	def entry(i, call):
	    name, number, state, group = (call.split(":") + [""])[:4]
	    return {"record_id": i, "pg_id": 0, "collective_seq_id": int(number),
	            "p2p_seq_id": int(number), "op_id": i, "is_p2p": "->" in name,
	            "process_group": (group, group) if group else ("0", "default_pg"),
	            "profiling_name": "nccl:" + name, "state": state,
	            "time_created_ns": 1, "retired": state == "completed",
	            "input_sizes": [[4096]], "input_dtypes": ["BFloat16"],
	            "output_sizes": [[4096]], "output_dtypes": ["BFloat16"],
	            "frames": [{"filename": "/x/site-packages/torch/d.py", "line": 1, "name": "w"},
	                       {"filename": "/home/u/train.py", "line": 88, "name": "step"}]}
	trace = {"version": "2.10", "pg_status": {},
	         "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"},
	                       "tp": {"name": "tp", "desc": "tp", "ranks": "[0, 1]"}},
	         "entries": [entry(i, c) for i, c in enumerate(sys.argv[2:])]}
	with open("attempt_0/fr_trace_" + sys.argv[1], "wb") as f:
	    pickle.dump(trace, f, protocol=2)
	P
}

@test "merge reads the traces of PyTorch's NCCL backend" {
	trace 0 all_reduce:1:completed all_reduce:2:started broadcast:5:completed:tp
	trace 1 all_reduce:1:completed all_reduce:2:scheduled all_gather:5:started:tp
	expect 0 ddprun dump --merge .
	has "$out" '^traces in attempt_0 \(PyTorch\): 2 of 3 ranks$'
	has "$out" '^rank 0 \(fr_trace_0\): in: all_reduce #2 \(BFloat16 \[4096\]\) at train.py:88 step\(\)$'
	has "$out" '^  broadcast #5 \(BFloat16 \[4096\]\) of group tp \(tp\): rank 0 \(train.py:88 step\(\)\)$'
	has "$out" '^  all_gather #5 .*: rank 1 '
	has "$out" '^no record of rank 2$'
	trace 2 all_reduce:1:completed
	expect 0 ddprun dump --merge .
	has "$out" '^2 of 3 ranks have reached all_reduce #2 .*; missing: rank 2 \(fr_trace_2\)$'
	trace 0 'send 0->1:1:started'
	trace 1 all_reduce:1:completed 'recv 1<-2:1:started'
	trace 2 all_reduce:1:completed 'send 2->0:1:started'
	expect 0 ddprun dump --merge . --json
	has "$out" '"source":	"PyTorch",'
	has "$out" '"last":	"in: recv 1<-2 .* at train.py:88 step'
}

@test "merge reads the traces that PyTorch itself writes" {
	local DEADLINE=300 # to import it takes long on a busy machine
	torch_or_skip
	"$PYTHON_EXEC" -c 'from torch._C._distributed_c10d import _dump_fr_trace' ||
		skip "this PyTorch has no flight recorder of gloo"
	expect 0 ddprun --nproc-per-node 2 "$lib_tests/programs/workers/torch_trace.py" "$T/fr_trace_"
	expect 0 ddprun dump --merge .
	has "$out" '^traces \(PyTorch\): 2 of 2 ranks$'
	has "$out" '^rank 0 \(fr_trace_0\): in: all_reduce #2 .* at torch_trace.py:[0-9]+ step\(\)$'
	has "$out" '^  broadcast #2 \(Float \[4, 3\]\): rank 1 \(torch_trace.py:[0-9]+ step\(\)\)$'
	has "$out" '^  all_reduce #2 \(Float \[4, 3\]\): rank 0 '
}
