# torchrun's command line in ddprun, as the workers see it.
# covers: launcher/config launcher/plan
load ../lib

# Without the prefix and in the order of the ranks.
lines() {
	sort <<<"$out" | sed 's/^\[[0-9]*\] //'
}

need_python() {
	command -v python3 >/dev/null || skip "python3 is not installed"
}

# show.py: its arguments, as Python has them
make_script() {
	cat >"$1" <<-'EOF'
		import os, sys
		print(os.path.basename(sys.argv[0]), sys.argv[1:], flush=True)
	EOF
}

@test "PET_ variables are the defaults and the command line takes precedence" {
	export PET_NPROC_PER_NODE=2 PET_ROLE=from-env PET_MAX_RESTARTS=7
	expect 0 ddprun sh -c 'echo $ROLE_NAME $WORLD_SIZE $TORCHELASTIC_MAX_RESTARTS'
	[ "$(lines)" = $'from-env 2 7\nfrom-env 2 7' ]
	expect 0 ddprun --role mine --nproc_per_node=1 --max-rest 3 \
		sh -c 'echo $ROLE_NAME $WORLD_SIZE $TORCHELASTIC_MAX_RESTARTS'
	[ "$(lines)" = 'mine 1 3' ]
}

@test "abbreviations and both spellings work, also under torchrun's name" {
	ln -s "$DDPRUN" torchrun
	expect 0 ./torchrun --nproc 2 --rdzv_i=7 --max-restart=1 --standal \
		sh -c 'echo $WORLD_SIZE $TORCHELASTIC_MAX_RESTARTS'
	[ "$(lines)" = $'2 1\n2 1' ]
	expect 2 ./torchrun --rdzv x true
	has "$err" 'option --rdzv is ambiguous: --rdzv-'
}

@test "everything after the program's name belongs to the program" {
	expect 0 ddprun -- echo --help -- --nnodes 2
	[ "$(lines)" = '--help -- --nnodes 2' ]
	expect 0 ddprun echo -m --nnodes=9
	[ "$(lines)" = '-m --nnodes=9' ]
}

@test "a shell's own pid in an argument is left to the shell" {
	expect 0 ddprun sh -c 'test $$ -gt 1 && echo yes'
	[ "$(lines)" = yes ]
}

@test "a role, its ranks and the signals reach the workers" {
	expect 0 ddprun --nproc-per-node 2 --role trainer \
		--signals-to-handle SIGTERM,SIGINT sh -c \
		'echo $ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE $TORCHELASTIC_SIGNALS_TO_HANDLE'
	[ "$(lines)" = $'trainer 0 2 SIGTERM,SIGINT\ntrainer 1 2 SIGTERM,SIGINT' ]
}

@test "--virtual-local-rank gives each worker one GPU and LOCAL_RANK 0" {
	local show='echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $CUDA_VISIBLE_DEVICES'
	CUDA_VISIBLE_DEVICES=5,GPU-a,3 expect 0 ddprun --nproc-per-node 2 \
		--virtual-local-rank sh -c "$show"
	[ "$(lines)" = $'0 0 2 5\n1 0 2 GPU-a' ]
	unset CUDA_VISIBLE_DEVICES
	expect 0 ddprun --nproc-per-node 2 --virtual-local-rank sh -c "$show"
	[ "$(lines)" = $'0 0 2 0\n1 0 2 1' ]
}

@test "--gpus-per-proc gives each worker its GPUs" {
	local show='echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES'
	export CUDA_VISIBLE_DEVICES=7,6,5,4
	expect 0 ddprun --nproc-per-node 2 --gpus-per-proc 2 sh -c "$show"
	[ "$(lines)" = $'0 7,6\n1 5,4' ]
	expect 0 ddprun --nproc-per-node 2 --gpus-per-proc 2 \
		--virtual-local-rank sh -c "$show"
	[ "$(lines)" = $'0 7,6\n0 5,4' ]
	# without either it is passed on as it is
	expect 0 ddprun --nproc-per-node 2 sh -c "$show"
	[ "$(lines)" = $'0 7,6,5,4\n1 7,6,5,4' ]
}

@test "a script, a module and --run-path run in Python" {
	need_python
	mkdir pkg
	touch pkg/__init__.py
	make_script train.py
	make_script pkg/mod.py
	make_script plain
	expect 0 ddprun train.py --x 1
	[ "$(lines)" = "train.py ['--x', '1']" ]
	expect 0 ddprun --nproc-per-node 2 -m pkg.mod --nnodes '${local_rank}'
	[ "$(lines)" = $'mod.py [\'--nnodes\', \'0\']\nmod.py [\'--nnodes\', \'1\']' ]
	PET_MODULE=1 expect 0 ddprun pkg.mod
	[ "$(lines)" = "mod.py []" ]
	expect 0 ddprun --run-path --start-method fork plain a
	[ "$(lines)" = "plain ['a']" ]
	expect 126 ddprun ./plain
	has "$err" "cannot run './plain': .*\(--run-path for a Python script\)"
}

@test "--legacy-launch works as torch.distributed.launch" {
	need_python
	make_script train.py
	expect 0 ddprun --legacy-launch --nproc-per-node 2 train.py --x
	[ "$(lines)" = $'train.py [\'--local-rank=0\', \'--x\']\ntrain.py [\'--local-rank=1\', \'--x\']' ]
	expect 0 ddprun --legacy-launch --use_env train.py --x
	[ "$(lines)" = "train.py ['--x']" ]
}

@test "options without meaning outside Python are accepted where harmless" {
	expect 0 ddprun --start-method forkserver --event-log-handler null \
		--logs-specs default --monitor-interval 5 \
		--rdzv-conf timeout=900,close_timeout=30,read_timeout=60,store_type=tcp \
		--rdzv-backend c10d echo ok
	[ "$(lines)" = ok ]
	[ -z "$err" ]
}

@test "--rdzv-conf is_host=0 leaves the server to another node" {
	# where nobody else takes the port meanwhile
	local at=127.36.0.1
	start server ddprdzv --listen $at:0
	await server.err 'listening on .*:([0-9]+)'
	local port=${line##*:}
	port=${port%% *}
	expect 0 ddprun --rdzv-endpoint "$at:$port" \
		--rdzv-conf is_host=0 echo met
	[ "$(lines)" = met ]
	signal server TERM
	finish server
	# the same endpoint, free now: no server
	expect 75 ddprun --rdzv-endpoint "$at:$port" --rdzv-timeout 1.5 \
		--rdzv-conf is_host=0 true
	has "$err" 'gave up after 1.5 s'
}
