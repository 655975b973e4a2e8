# covers: trainers/cuda trainers/ops
bats_require_minimum_version 1.5.0
load ../lib

# --device cuda and its library. If CUDA's headers are installed, the whole twin also
# runs without a GPU: its kernels on the host, the calls of CUDA, cuDNN and cuBLAS as
# plain loops (tests/unit/trainers/cuda).

setup() {
	lib_setup
	# all tests here share the generated digits
	export DDP_CACHE=$BATS_FILE_TMPDIR/cache
	unset DDP_DATA DDP_CUDA_OPS
}

host_twin() {
	[ -f "$O/tests/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	export DDP_CUDA_OPS=$O/tests/libddp_cuda_ops.so
	# measuring is for the tests that are about it
	export DDP_CUDNN_SEARCH=0
}

same() { # PART: what gpu_ops compares
	expect 0 "$O/gpu/gpu_ops" cuda "$1"
	has "$out" '^ok$'
}

@test "a missing library prints one line, and auto uses the CPU" {
	DDP_CUDA_OPS=/nowhere.so expect 2 mnist_mlp --device cuda
	has "$err" 'no CUDA operations: /nowhere.so'
	has "$err" 'use --device cpu'
	[ "$(wc -l <<<"$err")" = 1 ]
	DDP_CUDA_OPS=/nowhere.so expect 0 mnist_mlp --device auto --steps 3
	has "$out$err" ', cpu, '
}

@test "another library under the same name is refused" {
	DDP_CUDA_OPS=$O/libddp.so expect 2 mnist_mlp --device cuda
	has "$err" 'belongs to another build; rebuild both'
}

@test "a missing driver prints one line, and auto uses the CPU" {
	[ -f "$O/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	[ ! -e /dev/nvidiactl ] || skip "there is a driver"
	expect 2 mnist_mlp --device cuda
	has "$err" 'no GPU: this host has no NVIDIA driver'
	[ "$(wc -l <<<"$err")" = 1 ]
	# ... without loading the CUDA libraries, which takes longer than all else
	! ldconfig -p | grep -q 'libcuda\.so\.1 ' || return 0
	expect 0 env LD_DEBUG=files mnist_mlp --device auto --steps 3
	has "$out" ', cpu, '
	has "$err" 'libcuda\.so\.1'
	lacks "$err" 'libddp_cuda_ops|libcudart'
}

@test "the library exports its one entry point and nothing else" {
	[ -f "$O/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	[ -z "${SAN:-}" ] || skip "sanitizers show names of their own"
	expect 0 nm -D --defined-only "$O/libddp_cuda_ops.so"
	[ "$(awk '{print $3}' <<<"$out")" = ddp_cuda_ops ]
}

@test "the CUDA code built for the host computes linear layers, losses, updates, recorded steps" {
	host_twin
	same 'linear, '
	same 'mean of squares'
	same '1000 classes' # more than a byte counts
}

@test "the CUDA code built for the host computes convolutions, f32, bf16 and fp16" {
	host_twin
	same 'conv, odd'
}

@test "convolutions use cuDNN's legacy calls where it has no graph API" {
	host_twin
	ON_HOST_GRAPH=0 same 'conv, odd'
}

# The engines of the stand-in (on_host_graph.cc) that are faster than the right one
# are refused: they vary, are coarse, need too much memory, cannot be built, or cannot
# be recorded. 8 is fastest for bf16 and fp16, and TF32 for f32, where 9 is.
@test "a convolution is measured once, and its fastest deterministic plan is kept" {
	host_twin
	unset DDP_CUDNN_SEARCH
	export DDP_CACHE=$T/plans
	same 'conv, odd'
	local file=$T/plans/conv-CUDA_on_the_host_sm_90__1_SMs-*.plans
	cp $file first
	[ "$(grep '^bf16 ' first | cut -f 2 | uniq -c | tr -s ' ')" = ' 8 eng8 2=80' ]
	[ "$(grep '^fp16 ' first | cut -f 2 | uniq -c | tr -s ' ')" = ' 8 eng8 2=80' ]
	[ "$(grep '^f32 ' first | cut -f 2 | uniq -c | tr -s ' ')" = ' 8 eng9 2=90' ]
	# later runs use it, whatever would be measured now
	ON_HOST_FAST=7 same 'conv, odd'
	cmp $file first
	# unless they are to search
	DDP_CUDNN_SEARCH=1 ON_HOST_FAST=7 same 'conv, odd'
	[ "$(cut -f 2 -s $file | uniq -c | tr -s ' ')" = ' 24 eng7 2=70' ]
}

@test "without measuring, cuDNN's first deterministic plan is used, and no file made" {
	host_twin
	DDP_CACHE=$T/plans DDP_CUDNN_SEARCH=0 same 'conv, odd'
	[ ! -e plans ]
}

@test "a damaged file of plans is reported in one line, and replaced" {
	host_twin
	unset DDP_CUDNN_SEARCH
	export DDP_CACHE=$T/plans
	same 'conv, odd'
	local file
	file=$(echo "$T"/plans/conv-*.plans)
	cp "$file" right
	sed -i 's/eng8/eng1/' "$file"
	same 'conv, odd'
	[ "$(grep -c 'note: .*damaged' <<<"$out")" = 1 ]
	cmp "$file" right
	chmod 666 "$file"
	sed 's/eng8/eng1/' right >"$file"
	same 'conv, odd'
	has "$out" 'note: .*others can write to it'
	run ! cmp "$file" right
}

@test "a batch of more values than cuDNN takes is refused, with a remedy" {
	host_twin
	same limit
	has "$out" 'layer conv1: 4096 images of 64 x 112 x 112 are 3288334336 values, and cuDNN takes at most 2147483647 at once, which are 2674 images; use a smaller --batch-size'
}

@test "a GPU's waits go through libddp, and its queue holds three steps" {
	host_twin
	same waits
	has "$out" '^waits: 3 in 5 steps$'
}

@test "an older cuDNN or cuBLASLt is one line that says where it was loaded from" {
	host_twin
	mkdir data
	t_idx data 100 10
	local library
	for library in cuDNN cuBLASLt; do
		ON_HOST_CUDNN=$([ $library = cuDNN ] && echo 90000) \
			ON_HOST_CUBLAS=$([ $library = cuBLASLt ] && echo 100000) \
			expect 1 mnist_mlp --device cuda --data data --steps 1
		has "$err" "$library [0-9]+\.[0-9]+ was loaded from .*/libddp_cuda_ops.so, and this was built with [0-9]+\.[0-9]+; put the folder of .* first in LD_LIBRARY_PATH"
		[ "$(wc -l <<<"$err")" = 1 ]
	done
}

@test "a missing cuDNN or cuBLASLt is named, with where it was looked for" {
	[ -f "$O/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	local library
	for library in libcudnn libcublasLt; do
		# a number that no host has
		LC_ALL=C sed "s/$library\.so\.[0-9]/$library.so.x/" \
			"$O/libddp_cuda_ops.so" >"$library.so"
		LD_LIBRARY_PATH=/else/where DDP_CUDA_OPS=./$library.so \
			expect 2 mnist_mlp --device cuda
		has "$err" "$library\.so\.x.*: cannot open shared object file.*; \./$library.so needs it, and it was looked for in LD_LIBRARY_PATH \('/else/where'\), .*/lib64 and the system's folders: install it"
		[ "$(wc -l <<<"$err")" = 1 ]
	done
}

@test "the CUDA code built for the host computes batch normalisation and additions" {
	host_twin
	same 'norm, add'
}

@test "the CUDA code built for the host computes max-pooling" {
	host_twin
	same 'max pool'
}

@test "convolutions and normalisation match the formulas in f64 of rounded inputs" {
	expect 0 "$O/gpu/gpu_reference" cpu
	has "$out" '^ok$'
	host_twin
	expect 0 "$O/gpu/gpu_reference" cuda
	has "$out" '^bf16 norm 16 x 8 @ 1, add, relu$'
	has "$out" '^fp16 norm 16 x 8 @ 1, add, relu$'
	has "$out" '^ok$'
}

@test "more ranks than GPUs are refused before training, unless they may share" {
	host_twin
	local job="$DDPRUN --standalone --nproc-per-node 2 mnist_mlp --device cuda --backend cpu --data data --steps 2"
	mkdir data
	t_idx data 100 10
	expect 2 $job
	has "$err" '^\[1\] mnist_mlp: rank 1: ranks 0 and 1 of a host would share GPU 0: it has 1 for its ranks; start fewer workers per node, or give --oversubscribe-gpu$'
	[ "$(grep -c '^\[[01]\] .*would share' <<<"$err")" = 1 ]
	run ! grep 'step\|epoch' <<<"$out"
	expect 0 $job --oversubscribe-gpu
	has "$out" '2 ranks x batch 32, CUDA on the host'
	ON_HOST_GPUS=2 expect 0 $job
}

@test "an error about GPU memory names the request, the free memory and a remedy" {
	host_twin
	mkdir data
	t_idx data 100 10
	export ON_HOST_MIB=8
	expect 1 mnist_ae --device cuda --data data --steps 1 --batch-size 4096 \
		--checkpoint c
	has "$err" '^mnist_ae: .*the GPU has no memory for [0-9]+ MiB more: [0-7] of its 8 MiB are free; use a smaller --batch-size$'
	[ "$(wc -l <<<"$err")" = 1 ]
	run ! grep epoch <<<"$out"
}

# Copies of batches are late there: they are made when something waits for them.
@test "a data set that does not fit in the GPU's memory stays in the host's" {
	host_twin
	local m common='--device cuda --data data --batch-size 32 --log-every 1 --steps 50'
	mkdir data
	t_idx data 30000 40
	for m in mlp ae; do
		expect 0 mnist_$m $common --log-dir $m.all --checkpoint $m.all.ckpt
		lacks "$err" 'stay in host memory'
		ON_HOST_MIB=42 expect 0 mnist_$m $common --log-dir $m.few --checkpoint $m.few.ckpt
		has "$err" '30000 images of 784 bytes \(22 MiB\) stay in host memory, because 4[0-2] of the GPU.s 42 MiB are free: each batch is copied while the one before it is used'
		cmp $m.all.ckpt $m.few.ckpt
		cmp <(grep '"step"' $m.all/metrics.jsonl) <(grep '"step"' $m.few/metrics.jsonl)
	done
}

@test "--conv direct is refused on a GPU" {
	host_twin
	expect 2 resnet --device cuda --synthetic --steps 1 --conv direct
	has "$err" '^resnet: --conv direct only applies to CPUs: .*--device cpu'
}
