# covers: worker-sdk/nccl
bats_require_minimum_version 1.5.0
load ../lib

# The NCCL backend without a GPU: what is loaded, the errors for what is missing, the
# creation and exchange of ids, and that all ranks decide alike. tests/run-gpu runs
# what needs a GPU.

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

ranks() { # STATUS N CMD...: N ranks that are deaf to the launcher's SIGTERM
	local status=$1 n=$2
	shift 2
	expect "$status" "${deaf[@]}" \
		ddprun --standalone --nproc-per-node "$n" "$@"
}

every_rank_says() { # N ERE
	[ "$(grep -cE "^\[[0-9]+\] $2" <<<"$out")" = "$1" ] && return
	echo "not $1 ranks that say '$2':"
	sed 's/^/| /' <<<"$out"
	return 1
}

no_gpu_or_skip() {
	! compgen -G '/dev/nvidia[0-9]*' >/dev/null || skip "there is a GPU here"
}

nccl_or_skip() {
	c_nccl can >/dev/null || skip "there is no libnccl here"
}

# A driver and a CUDA runtime with prepared answers.
fake_cuda() {
	mkdir -p fake
	echo 'int cuInit(int flags) { return flags; }' >driver.c
	${CC:-gcc} -shared -fPIC -o fake/libcuda.so.1 driver.c
	${CC:-gcc} -shared -fPIC -o fake/libcudart.so \
		"$root/tests/gpu/fake_cuda.c"
	export DDP_CUDART_LIB=$T/fake/libcudart.so
	export LD_LIBRARY_PATH=$T/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

@test "backend nccl without a GPU prints one clear line from every rank" {
	no_gpu_or_skip
	expect 1 c_nccl init nccl
	has "$out" '^-20002: backend nccl: rank 0 cannot use NCCL: .*; fix that, or use cpu or auto$'
	[ "$(wc -l <<<"$out")" = 1 ]
	ranks 1 3 c_nccl init nccl
	every_rank_says 3 '-20002: backend nccl: rank 0 on .* cannot use NCCL: .*(driver|GPU|libcudart).*; fix that, or use cpu or auto$'
	[ "$(wc -l <<<"$out")" = 3 ]
}

@test "backend auto without a GPU uses the cpu, and reports why" {
	no_gpu_or_skip
	expect 0 c_nccl init
	has "$out" '^backend cpu: backend auto: cpu, because rank 0 cannot use NCCL: .*driver'
	ranks 0 3 c_nccl init auto
	every_rank_says 3 'backend cpu: backend auto: cpu, because rank 0 on .*driver'
}

@test "an unknown backend, or different backends, are errors" {
	expect 1 c_nccl init gloo
	[ "$out" = "-20002: backend 'gloo' is unknown: use cpu, nccl or auto" ]
	ranks 1 2 sh -c '[ $RANK = 0 ] || export DDP_BACKEND=cpu
		exec c_nccl init'
	every_rank_says 2 '-20002: rank [01] on .* uses backend (cpu|auto), rank [01] on .* uses (cpu|auto): give all the same --backend or DDP_BACKEND'
}

@test "a library that is missing or incomplete is an error" {
	DDP_CUDART_LIB=/nowhere/libcudart.so expect 1 c_nccl init nccl
	has "$out" "cannot use NCCL: DDP_CUDART_LIB is '/nowhere/libcudart.so', which cannot be loaded: .*No such file"
	echo 'int cudaGetDeviceCount(int *n) { return *n = 0; }' >part.c
	${CC:-gcc} -shared -fPIC -o part.so part.c
	DDP_CUDART_LIB=$T/part.so expect 1 c_nccl init nccl
	has "$out" "cannot use NCCL: $T/part.so has no cudaGetDevice: libddp needs the CUDA runtime 11.2 or newer"
	DDP_NCCL_LIB=/nowhere/libnccl.so expect 1 c_nccl id
	has "$out" "^-20003: ddp_nccl_unique_id: rank 0: DDP_NCCL_LIB is '/nowhere/libnccl.so', which cannot be loaded"
	echo 'int ncclGetVersion(int *v) { *v = 21005; return 0; }' >old.c
	${CC:-gcc} -shared -fPIC -o old.so old.c
	DDP_NCCL_LIB=$T/old.so expect 1 c_nccl id
	[ "$out" = "-20003: ddp_nccl_unique_id: rank 0: $T/old.so is NCCL 2.10.5: libddp needs 2.18 or newer; set DDP_NCCL_LIB to one" ]
	echo 'int ncclGetVersion(int *v) { *v = 22809; return 0; }' >empty.c
	${CC:-gcc} -shared -fPIC -o empty.so empty.c
	DDP_NCCL_LIB=$T/empty.so expect 1 c_nccl id
	[ "$out" = "-20003: ddp_nccl_unique_id: rank 0: $T/empty.so has no ncclGetUniqueId: libddp needs NCCL 2.18 or newer; set DDP_NCCL_LIB to one" ]
	fake_cuda
	DDP_NCCL_LIB=/nowhere/libnccl.so expect 1 c_nccl init nccl
	has "$out" "cannot use NCCL: DDP_NCCL_LIB is '/nowhere/libnccl.so', which cannot be loaded"
	${CC:-gcc} -shared -fPIC -DcudaGetErrorString=cudaGetErrorText \
		-o mute.so "$root/tests/gpu/fake_cuda.c"
	DDP_CUDART_LIB=$T/mute.so expect 1 c_nccl init nccl
	has "$out" "cannot use NCCL: $T/mute.so has no cudaGetErrorString: libddp needs the CUDA runtime 11.2 or newer"
}

@test "the CUDA runtime in LD_LIBRARY_PATH is found by its name" {
	no_gpu_or_skip
	fake_cuda
	unset DDP_CUDART_LIB
	mv fake/libcudart.so fake/libcudart.so.13
	FAKE_CUDA_COUNT=100 FAKE_CUDA_DRIVER=13000 expect 1 c_nccl init nccl
	has "$out" 'cannot use NCCL: the NVIDIA driver \(for CUDA 13.0\) sees no GPU on this host'
}

@test "every rank gets the error if rank 0 cannot create an id" {
	DDP_NCCL_LIB=/nowhere/libnccl.so ranks 1 3 c_nccl id
	every_rank_says 3 "-20003: ddp_nccl_unique_id: rank 0 on .*: DDP_NCCL_LIB is '/nowhere/libnccl.so'"
}

@test "all ranks get the same id from rank 0's NCCL, and another at each call" {
	local n
	nccl_or_skip
	for n in 1 2 4; do
		ranks 0 $n c_nccl id
		[ "$(grep -cE '^\[[0-9]\] id [0-9a-f]{256}$' <<<"$out")" = $((2 * n)) ]
		[ "$(sed 's/^\[.\] //' <<<"$out" | sort -u | wc -l)" = 2 ]
	done
	# only rank 0 needs the library
	ranks 0 2 sh -c '[ $RANK = 0 ] || export DDP_NCCL_LIB=/nowhere
		exec c_nccl id'
	[ "$(sed 's/^\[.\] //' <<<"$out" | sort -u | wc -l)" = 2 ]
}

@test "bad arguments to the NCCL calls are errors, and the calls work on the cpu" {
	expect 0 c_nccl misuse
	has "$out" '^NULL: -20001: ddp_nccl_unique_id: the communicator is NULL$'
	has "$out" '^no id: -20001: ddp_nccl_unique_id: id is NULL'
	has "$out" '^short: -20001: ddp_nccl_unique_id: .* size 127: .* which is 128$'
	has "$out" '^memory of NULL: -20001: ddp_nccl_alloc: the communicator is NULL'
	has "$out" '^memory on cpu: -20001: ddp_nccl_alloc needs the backend nccl, and this one is cpu$'
	has "$out" '^registered of NULL: -20001: '
	has "$out" '^registered on cpu: -20001: ddp_nccl_register needs the backend nccl, and this one is cpu$'
	has "$out" '^event of NULL: -20001: '
	has "$out" '^no event: -20001: ddp_wait_event: event is NULL$'
	has "$out" '^event on cpu: -20001: ddp_wait_event needs the backend nccl, and this one is cpu$'
	has "$out" '^stream of NULL: -20001: '
	has "$out" '^stream on cpu: 0: $'
	has "$out" '^comm on cpu: 0$'
	has "$out" '^comm of NULL: 0$'
}

@test "no driver, an old driver and no device are distinguished" {
	fake_cuda
	FAKE_CUDA_COUNT=35 expect 1 c_nccl init nccl
	has "$out" 'cannot use NCCL: no NVIDIA driver is loaded on this host'
	FAKE_CUDA_COUNT=35 FAKE_CUDA_DRIVER=11040 expect 1 c_nccl init nccl
	has "$out" "cannot use NCCL: the NVIDIA driver of this host is for CUDA 11.4, but .*/libcudart.so needs CUDA 13.0: update the driver, or set DDP_CUDART_LIB to an older libcudart"
	FAKE_CUDA_COUNT=100 FAKE_CUDA_DRIVER=13000 expect 1 c_nccl init nccl
	has "$out" 'cannot use NCCL: the NVIDIA driver \(for CUDA 13.0\) sees no GPU on this host'
	FAKE_CUDA_COUNT=100 CUDA_VISIBLE_DEVICES=-1 expect 1 c_nccl init nccl
	has "$out" "cannot use NCCL: the NVIDIA driver shows no GPU: CUDA_VISIBLE_DEVICES is '-1'"
	FAKE_CUDA_COUNT=999 expect 1 c_nccl init nccl
	has "$out" 'cannot use NCCL: the GPUs of this host cannot be used: an error of the fake \(999\)'
}

@test "a trainer that is set to the CPU does not look for GPUs" {
	# a process that loads the driver leaves a file
	cat >spy.c <<-'END'
		#include <stdio.h>
		static __attribute__((constructor)) void seen(void)
		{
			fclose(fopen("looked", "w"));
		}
	END
	mkdir spy
	${CC:-gcc} -shared -fPIC -o spy/libcuda.so.1 spy.c
	export LD_LIBRARY_PATH=$T/spy${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	expect 0 c_nccl init auto
	[ -e looked ]
	rm looked
	expect 0 mnist_mlp --epochs 0 --device cpu
	expect 0 mnist_mlp --epochs 0 --device cpu --backend auto
	expect 0 mnist_ae --epochs 0 --device cpu --backend cpu
	expect 2 mnist_mlp --epochs 0 --device cpu --backend nccl
	has "$err" '--backend nccl cannot reduce what --device cpu computes; use cpu or auto'
	[ ! -e looked ]
}

@test "if one rank cannot use NCCL, auto is cpu on all ranks, nccl an error on all" {
	local some='[ $RANK = 1 ] && export FAKE_CUDA_COUNT=100
		FAKE_CUDA_GPU=0000:0$RANK:00.0 exec c_nccl init'
	fake_cuda
	nccl_or_skip
	ranks 0 3 sh -c "$some auto"
	every_rank_says 3 'backend cpu: backend auto: cpu, because rank 1 on .* cannot use NCCL: .* no GPU'
	ranks 1 3 sh -c "$some nccl"
	every_rank_says 3 '-20002: backend nccl: rank 1 on .* cannot use NCCL: .* no GPU'
}

@test "two ranks on one GPU are an error with a remedy" {
	fake_cuda
	nccl_or_skip
	ranks 1 2 c_nccl init nccl
	every_rank_says 2 '-20002: backend nccl: rank 0 on .* and rank 1 on .* have the same GPU \(0000:01:00.0\), .* DDP_NCCL_SHARE_GPU=1'
	ranks 0 2 c_nccl init auto
	every_rank_says 2 'backend cpu: backend auto: cpu, because rank 0 on'
}

@test "if NCCL cannot start, every rank prints NCCL's error, without a hang" {
	no_gpu_or_skip
	fake_cuda
	nccl_or_skip
	expect 1 c_nccl init nccl
	has "$out" '^-20003: ddp_init \(NCCL\): NCCL: '
	DDP_NCCL_SHARE_GPU=1 ranks 1 2 c_nccl init nccl
	every_rank_says 2 '-2000[37]: ddp_init \(NCCL\): (NCCL: |another rank ended it: )'
}

@test "a driver that ldconfig does not list is only searched for where the user says" {
	[ -z "$(ldconfig -p | grep 'libcuda\.so\.1')" ] || skip "there is a driver here"
	expect 0 env LD_DEBUG=libs c_nccl init auto
	has "$err" 'find library=libc\.so'
	[ -z "$(grep 'find library=libcuda' <<<"$err")" ]
	expect 0 env LD_LIBRARY_PATH="$T" LD_DEBUG=libs c_nccl init auto
	has "$err" 'find library=libcuda\.so\.1'
}

# A program's RUNPATH is where it is looked for what the program itself needs, not
# its libraries: but where libddp is one of these, it is the program's user who set
# it, for CUDA's.
@test "a driver and a CUDA runtime that only the program's RUNPATH has are found" {
	no_gpu_or_skip
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	[ -z "$(ldconfig -p | grep 'libcuda\.so\.1')" ] || skip "there is a driver here"
	mkdir -p fake
	echo 'int cuInit(int flags) { return flags; }' >driver.c
	${CC:-gcc} -shared -fPIC -Wl,-soname,libcuda.so.1 -o fake/libcuda.so.1 driver.c
	# by name, as CUDA's does
	cat >runtime.c <<-END
		#include <dlfcn.h>
		#include "$root/tests/gpu/fake_cuda.c"
		static __attribute__((constructor)) void look(void)
		{
			puts(dlopen("libcuda.so.1", RTLD_NOW) ? "driver" : "none");
		}
	END
	${CC:-gcc} -shared -fPIC -o fake/libruntime.so runtime.c
	${CC:-gcc} -I "$root" -o worker "$root/tests/programs/sdk/c_nccl.c" \
		"$O/libddp.so" -Wl,--enable-new-dtags,-rpath,"$O:$T/lib:\$ORIGIN/fake"
	mkdir lib
	ln -s "$O/libddp.so" lib/libddp.so.0
	export FAKE_CUDA_COUNT=100 FAKE_CUDA_DRIVER=13000 DDP_CUDART_LIB=libruntime.so
	expect 1 ./worker init nccl
	has "$out" '^driver$'
	has "$out" 'cannot use NCCL: the NVIDIA driver \(for CUDA 13.0\) sees no GPU on this host'
	expect 0 ./worker init auto
	has "$out" '^driver$'
	has "$out" '^backend cpu: backend auto: cpu, because .* sees no GPU on this host'
	# without it, no driver
	rm fake/libcuda.so.1
	expect 0 ./worker init auto
	has "$out" 'cpu, because .* no NVIDIA driver \(libcuda.so.1\) is installed'
}
