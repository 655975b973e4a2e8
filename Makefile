# ddprun: builds, tests and installs everything.
#
#   make demo        install what is missing, build, train MNIST on two workers
#   make check       install what is missing, build, run all tests
#                    FOR=launcher/output: only the tests that cover that room or file
#   make all         build everything into build/, without the trainers if oneDNN is
#                    missing; launcher, sdk: only the programs, only libddp
#   make check-gpu   the tests that need a GPU
#   make gpu-bundle  a folder with all that a bare GPU machine needs to run the
#                    parts of those tests (tests/gpu/part); BUNDLE=build/gpu-bundle
#   make check-cluster   all tests that need a real Slurm; check runs some of them
#   make check-roots     the same on the Slurm of other Debian releases, and the
#                    tests of etcd on theirs
#   make check-fresh     follow the README on a fresh Debian 13, then run tests there
#   make check-arm64     build for arm64, and run unit and some e2e tests under qemu-user
#   make check-mpich SRC=DIR   MPICH's own test programs, under ddprun and hydra
#   make check-image     build the image of packaging/Dockerfile, and run jobs in it
#   make check-apptainer the same for packaging/ddprun.def
#   make check-upgrade   upgrade the Debian package while its service has a job
#   make bench       ratios against peers and physical floors
#   make style       include rules, layout, wording, clang-format if installed
#   make analyze     gcc -fanalyzer and clang's static analyser; fails on any warning
#   make portable    compile for musl and arm64, with the compilers that are installed
#   make fuzz        run the fuzzers (FUZZ_SECONDS=60 each; FUZZ="wire torch"); needs clang
#   make fuzz-sdk    compare libddp with a reference, FUZZ_SECONDS (60) of random calls
#   make fuzz-store  compare the store with a model likewise (FUZZ_SEED=N: start at N)
#   make coverage    run the tests in a build of its own; lines and branches by room
#   make model       search all interleavings of a job's rounds for a minute (NODES=2,
#                    DEPTH=steps, FAULTS=n, MODEL_SECONDS=60; docs/testing.md)
#   make litmus      memory orders of shared memory; needs herd7 (docs/testing-memory.md)
#   make planted     plant faults, and check that tests find them (PLANTED="names")
#   make chaos       SECONDS (60) of random faults on several hosts (docs/testing.md)
#   make failures    plant failures, and score the first line about each (FOR="words")
#   make faults      let each call of each process fail once (docs/testing-faults.md)
#   make mutants     change one line at a time; do tests notice? (docs/testing.md)
#   make tests       build all programs that the tests start; bench-programs and
#                    gpu-programs: those of the benchmarks and of check-gpu
#   make deps        install what the tests need; build-deps: what the build needs
#   make cuda-ops    only the trainers' CUDA operations
#   make man, map    regenerate OPTIONS in docs/man/ddprun.1; redraw docs/pictures/map.svg
#   make site        the documents as a web site in build/site
#   make pictures    redraw docs/pictures, which the README shows
#   make install     to DESTDIR/PREFIX; make uninstall removes that
#   make deb, rpm, wheel, dist   packages (docs/packaging.md); wheel ARCH=aarch64:
#                    the other architecture; make clean, help
#
# Knobs: V=1 shows commands; SAN=address,undefined builds with sanitizers into a
# separate folder; WERROR=1 makes each compiler warning an error; O=/elsewhere
# builds there; DEPS=0 installs nothing; PREFIX (/usr/local), DESTDIR; CC,
# CFLAGS, LDFLAGS as usual; TESTS="e2e/x.bats" selects tests, BENCH="launch
# kill" benchmarks. CUDA=/usr/local/cuda is where CUDA, cuDNN and NCCL are. Only
# the trainers' operations on GPUs, and programs that call CUDA, need them, and
# are not built without them. CUDA_ARCH="80 90" are the GPUs that the operations
# are compiled for; other GPUs take a second at their first start.
# EMULATOR=qemu-aarch64 runs ddprun, for its completions, if CC is a cross
# compiler.

comma := ,
V ?= 0
SAN ?=
O := build$(if $(SAN),/$(subst $(comma),-,$(SAN)))
PREFIX ?= /usr/local
PKG_CONFIG ?= pkg-config
FUZZ_SECONDS ?= 60
VERSION := $(shell sed -n 's/^#define DDP_VERSION_M[A-Z]* //p;s/^#define DDP_VERSION_PATCH //p' worker-sdk/ddp.h | paste -sd.)
Q := $(if $(filter 1,$(V)),,@)

CUDA ?= /usr/local/cuda
cuda_header := $(wildcard $(CUDA)/include/cuda_runtime_api.h)
nccl_header := $(firstword $(wildcard $(CUDA)/include/nccl.h /usr/include/nccl.h))
has_nccl := $(and $(cuda_header),$(nccl_header),$(wildcard $(CUDA)/bin/nvcc))
has_cudnn := $(and $(cuda_header),$(wildcard $(CUDA)/include/cudnn.h),$(wildcard $(CUDA)/bin/nvcc))

CFLAGS ?= -O2 -g
# WERROR=1: a compiler's warning fails the build, as it does in CI.
warnings := -Wall -Wextra $(if $(WERROR),-Werror)
san_flags := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
# A stack overrun, or a copy that libc recognizes as too long, ends the process;
# tables of functions are read-only.
hardening := -fstack-protector-strong -fstack-clash-protection $(if $(filter -O -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
is_clang := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
all_cflags = -std=c11 -D_GNU_SOURCE -I. -MMD -MP -fPIC -fvisibility=hidden \
	$(warnings) -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
	-Wconversion -Wno-sign-conversion -Wformat=2 -Wundef -Wpointer-arith -Wold-style-definition \
	$(if $(is_clang),,-Wlogical-op -Wduplicated-cond -Wduplicated-branches) \
	-Wno-unused-parameter -Wno-missing-field-initializers \
	-DDDP_VERSION='"$(VERSION)"' $(san_flags) $(if $(SAN),,$(hardening)) $(CFLAGS)
all_ldflags = $(san_flags) -Wl,-z,relro,-z,now $(LDFLAGS)

# How make calls itself: on all cores, unless -j sets their number.
all_cores = --no-print-directory $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- programs and libraries

objs = $(patsubst %.c,$(O)/obj/%.o,$(1))
base_objs := $(call objs,$(wildcard base/*.c))
# The wire and authentication, which the programs and libddp share.
# The rooms of each program: docs/structure.md.
wire_objs := $(call objs,rendezvous/wire.c $(patsubst %,rendezvous/auth/%.c,proof cipher secret credential auth))
client_objs := $(call objs,$(patsubst %,rendezvous/client/%.c,client client_io client_connect server_exec) rendezvous/auth/client_handshake.c)
server_objs := $(call objs,$(foreach room,status stall store net round torch journal election server vouching query recovery admission web daemon,$(wildcard rendezvous/$(room)/*.c)) $(wildcard etcd/*.c)) $(wire_objs) $(base_objs)
# The library that workers preload: its bytes are in ddprun.
crash_handler := $(addprefix launcher/crash/crash_,handler.c environment.c python.c threads.c bus.c children.c masks.c outer.c fork.c)
crash_library := $(O)/obj/launcher/crash/crash_handler.so
launcher_objs := $(call objs,$(filter-out $(crash_handler),$(wildcard launcher/*.c launcher/*/*.c)) $(wildcard slurm/*.c pmi/*.c rendezvous/status/*.c) $(patsubst %,rendezvous/client/%.c,async_client server_exec) rendezvous/auth/credential_thread.c rendezvous/auth/client_handshake.c) $(wire_objs) $(base_objs)
sdk_sources := $(filter-out worker-sdk/examples/% worker-sdk/check/%,$(wildcard worker-sdk/*/*.c))
# The program ddprun-check, which is made of libddp's parts.
check_sources := $(wildcard worker-sdk/check/*.c)
sdk_objs := $(call objs,$(sdk_sources) $(wildcard slurm/*.c pmi/*.c)) $(client_objs) $(wire_objs) $(base_objs)
trainer_mains := $(wildcard trainers/mnist_*.c trainers/resnet.c trainers/toy_mp.c)
trainer_objs := $(call objs,$(foreach room,train report data models ops,$(wildcard trainers/$(room)/*.c)))
trainers := $(patsubst trainers/%.c,$(O)/%,$(trainer_mains))
include trainers/pack/pack.mk

# Linked statically where Debian has a static library, for a fast start.
uv_libs := $(shell $(PKG_CONFIG) --libs libuv-static 2>/dev/null || $(PKG_CONFIG) --libs libuv 2>/dev/null || echo -luv) -lpthread -ldl
# The few functions of it that we call, statically within our programs and libddp if
# possible.
sodium_libs := $(shell sh -c 'a=$$($(PKG_CONFIG) --variable=libdir libsodium 2>/dev/null)/libsodium.a; test -f $$a && echo $$a || echo -lsodium')
# What a program needs besides libddp.a if that does not contain it.
ddp_libs = $(filter-out %.a,$(sodium_libs))
dnnl_libs = -ldnnl -lgomp
# Without oneDNN the trainers are left out.
has_dnnl := $(shell printf '\043include <oneapi/dnnl/dnnl.h>\n' | $(CC) $(CFLAGS) -E -x c - >/dev/null 2>&1 && echo 1)

programs := $(O)/ddprun $(O)/ddprdzv $(O)/ddprun-check
libs := $(O)/libddp.a $(O)/libddp.so
completions := $(O)/completion/ddprun.bash $(O)/completion/_ddprun $(O)/completion/ddprun.fish

.PHONY: all launcher sdk no-trainers no-packer cuda-ops deb rpm dist uninstall wheel deps build-deps demo demo-programs check check-gpu gpu-bundle check-cluster check-mpich check-roots check-fresh check-arm64 cluster-programs check-image check-apptainer check-upgrade bench style analyze portable man map site pictures fuzz fuzz-sdk fuzz-store model coverage litmus planted faults failures chaos mutants install clean help tests bench-programs gpu-programs
.DEFAULT_GOAL := all
all: launcher sdk $(if $(has_dnnl),$(trainers),no-trainers) $(or $(packer),no-packer) $(O)/ddp-plot cuda-ops
launcher: $(programs) $(completions)
sdk: $(libs) $(O)/ddp.pc $(O)/man/ddp_init.3
no-trainers:
	@echo "no oneDNN (libdnnl-dev): the trainers are left out"
deps: ; @sh ./deps.sh tests
build-deps: ; @sh ./deps.sh

# This file contains the flags: a change of them rebuilds everything.
$(O)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC    $<")
	$(Q)$(CC) $(all_cflags) $(extra_cflags) -c -o $@ $<

$(filter-out $(O)/obj/trainers/ops/%,$(trainer_objs)) $(pack_objs) $(call objs,$(trainer_mains)): extra_cflags = -O3 -fno-math-errno

# With gcc, the CPU's operations distribute their loops over threads.
openmp := $(if $(is_clang),-Wno-unknown-pragmas,-fopenmp)
$(call objs,$(wildcard trainers/ops/*.c)): extra_cflags = -O3 -fno-math-errno $(openmp)

# The arithmetic, once for each instruction set; kernels.c chooses at run time.
$(call objs,$(wildcard worker-sdk/math/kernels_*.c)): extra_cflags = -O3 -ffp-contract=off $(isa_flags)
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
$(call objs,worker-sdk/math/kernels_avx2.c): isa_flags = -mavx2 -mf16c
avx512_flags := -mavx2 -mf16c -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=512
$(call objs,worker-sdk/math/kernels_avx512.c): isa_flags = $(avx512_flags)
endif

# It needs no library, not even libc, so that every libc can load it.
# For arm64 gcc calls atomic operations of its own library, which is not linked; for a
# loop it may call memset, which clang never does with -ffreestanding.
crash_flags := $(if $(filter aarch64%,$(shell $(or $(CRASH_CC),$(CC)) -dumpmachine 2>/dev/null)),-mno-outline-atomics) $(if $(findstring clang,$(shell $(or $(CRASH_CC),$(CC)) --version 2>/dev/null)),,-fno-tree-loop-distribute-patterns)
$(crash_library): $(crash_handler) $(wildcard launcher/crash/*.h) Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(or $(CRASH_CC),$(CC)) -std=c11 -D_GNU_SOURCE -I. -O2 -fPIC -fvisibility=hidden $(warnings) -Wshadow -Wmissing-prototypes -Wno-unused-parameter \
		-ffreestanding -fno-stack-protector -U_FORTIFY_SOURCE $(crash_flags) \
		$(or $(CRASH_TRACE),-s) -shared -nostdlib -Wl,-z,defs -Wl,-soname,ddprun-crash.so -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--hash-style=both -o $@ $(crash_handler)

$(call objs,launcher/crash/crash_catcher.c): $(crash_library)
# a new version is compiled into every program
$(call objs,$(shell grep -rlw --include=*.c DDP_VERSION launcher rendezvous trainers worker-sdk)): worker-sdk/ddp.h
$(call objs,rendezvous/web/web.c): $(wildcard rendezvous/web/page.*)
$(call objs,launcher/preload/template.c): $(wildcard launcher/preload/*.py)
$(call objs,launcher/crash/crash_catcher.c): extra_cflags = -DCRASH_LIBRARY='"$(crash_library)"'

$(O)/ddprun: $(launcher_objs)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(sodium_libs) $(uv_libs)

$(O)/ddprdzv: $(server_objs)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(sodium_libs) $(uv_libs)

$(O)/ddprun-check: $(call objs,$(check_sources)) $(sdk_objs)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(sodium_libs) -lz -lm -lpthread -ldl

# One relocatable object in which only ddp_* is global, so that a program linked
# with libddp.a may use the names that libddp uses internally.
$(O)/libddp.a: $(sdk_objs)
	$(if $(Q),@echo "  AR    $@")
	$(Q)$(CC) -r -nostdlib -o $(O)/obj/libddp.o $^ $(filter %.a,$(sodium_libs))
	$(Q)$(or $(OBJCOPY),objcopy) -w --keep-global-symbol='ddp_[a-z]*' $(O)/obj/libddp.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/obj/libddp.o

$(O)/libddp.so: $(sdk_objs) worker-sdk/ddp.map
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -shared -Wl,-soname,libddp.so.0 -Wl,--version-script=worker-sdk/ddp.map -o $@ $(sdk_objs) $(sodium_libs) -lz -lpthread -ldl
	$(Q)ln -sf libddp.so $(O)/libddp.so.0

$(trainers): $(O)/%: $(O)/obj/trainers/%.o $(trainer_objs) $(base_objs) $(O)/libddp.a
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(ddp_libs) $(dnnl_libs) -lcjson -lpng -lz -llzma -lm -lpthread -ldl

$(O)/ddp-plot: trainers/ddp-plot
	@mkdir -p $(@D)
	$(Q)install $< $@

# The trainers' operations on GPUs. The trainers load them when needed, so that the
# trainers themselves are linked with the same libraries everywhere.
CUDA_ARCH ?= 80 90
cuda_ops := $(if $(has_cudnn),$(O)/libddp_cuda_ops.so)
cuda_ops_objs := $(call objs,$(wildcard trainers/cuda/*.c) base/error.c base/file.c) $(O)/obj/kernels.cu.o
$(call objs,$(wildcard trainers/cuda/*.c)): extra_cflags = -isystem $(CUDA)/include
# where the library looks for CUDA's, for the error that one of them is missing
$(call objs,trainers/ops/ops.c): extra_cflags = -DCUDA_LIBRARIES='"$(CUDA)/lib64"'
# All kernels are compiled at once: nvcc spends most of its time on CUDA's headers.
cuda_kernels := $(wildcard trainers/cuda/*.cu)
$(O)/obj/kernels.cu: $(cuda_kernels) Makefile
	@mkdir -p $(@D)
	$(Q)printf '\043include "%s"\n' $(cuda_kernels) >$@
$(O)/obj/kernels.cu.o: $(O)/obj/kernels.cu
	$(if $(Q),@echo "  NVCC  $<")
	$(Q)$(CUDA)/bin/nvcc -O3 -std=c++17 -I. -MMD -MP -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics,-Wall$(if $(WERROR),$(comma)-Werror) \
		$(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
		$(foreach a,75 $(lastword $(CUDA_ARCH)),-gencode arch=compute_$(a)$(comma)code=compute_$(a)) -c -o $@ $<
$(O)/libddp_cuda_ops.so: $(cuda_ops_objs)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -shared -o $@ $^ -L$(CUDA)/lib64 -Wl,-rpath,$(CUDA)/lib64 -lcudart -lcublasLt -lcudnn -lm

cuda-ops: $(cuda_ops)
	$(if $(has_cudnn),,@echo "no CUDA, cuDNN and nvcc in $(CUDA) (CUDA=...): the trainers are built for CPUs alone")

# The programs of docs/sdk.md, built as their readers build them.
examples := $(patsubst worker-sdk/examples/%.c,$(O)/examples/%,$(wildcard worker-sdk/examples/*.c))
$(examples): $(O)/examples/%: worker-sdk/examples/%.c $(O)/libddp.a worker-sdk/ddp.h
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC    $@")
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(warnings) $(CFLAGS) $(all_ldflags) -Iworker-sdk -o $@ $< $(O)/libddp.a $(ddp_libs) -lz -lm -lpthread -ldl

# Files generated from the table of options.
$(O)/generate: $(call objs,docs/man/generate.c launcher/config/config_options.c) $(base_objs)
	$(Q)$(CC) $(all_ldflags) -o $@ $^

$(completions): $(O)/ddprun
	@mkdir -p $(@D)
	$(Q)$(EMULATOR) $(O)/ddprun --print-completion $(or $(patsubst .%,%,$(suffix $@)),zsh) >$@

# Writes a .pc file: prefix, libraries, headers, further options.
ddp_pc = sed 's|@PREFIX@|$1|;s|@LIBDIR@|$2|;s|@INCLUDEDIR@|$3|;s|@RPATH@|$4|;s|@VERSION@|$(VERSION)|;s|@SODIUM@|$(ddp_libs)|' worker-sdk/ddp.pc.in

# For programs that are built against this tree instead of an installation.
$(O)/ddp.pc: worker-sdk/ddp.pc.in Makefile
	@mkdir -p $(@D)
	$(Q)$(call ddp_pc,$(abspath $(O)),$${prefix},$(CURDIR)/worker-sdk, -Wl$(comma)-rpath$(comma)$${libdir}) > $@

# ---- tests

# Everything that a unit test may call without starting processes.
internal := $(O)/obj/internal.a
internal_objs := $(sort $(filter-out $(call objs,launcher/ddprun.c rendezvous/daemon/ddprdzv.c worker-sdk/check/ddprun_check.c),$(server_objs) $(launcher_objs) $(sdk_objs) $(call objs,$(check_sources)) $(trainer_objs) $(if $(has_jpeg),$(pack_objs))) $(call objs,trainers/cuda/layout.c trainers/cuda/plan_cache.c launcher/crash/crash_environment.c))
$(internal): $(internal_objs)
	$(Q)rm -f $@ && $(AR) rcsP $@ $^

# The path of a test below tests/unit is the path of its subject.
unit_sources := $(filter-out $(if $(has_jpeg),,tests/unit/trainers/pack/% %/test_records.c),$(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c))
unit_tests := $(patsubst %.c,$(O)/tests/%,$(notdir $(unit_sources)))
$(foreach s,$(unit_sources),$(eval $(O)/tests/$(basename $(notdir $s)): $(call objs,$s)))
# gold links in half of ld's time
test_ld := $(if $(shell $(CC) -fuse-ld=gold -Wl,--version 2>/dev/null),-fuse-ld=gold)
check_libs := $(shell $(PKG_CONFIG) --libs check 2>/dev/null || echo -lcheck)
$(unit_tests): $(internal)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) $(test_ld) -o $@ $(filter-out $(internal),$^) $(internal) $(check_libs) $(sodium_libs) $(uv_libs) $(dnnl_libs) -lcjson -lpng -lz -llzma -lm $(extra_libs) $(replaced)

# Tests are half of what check compiles; only some of them compute for long.
$(call objs,$(unit_sources)): extra_cflags = -O0 -U_FORTIFY_SOURCE
$(call objs,$(filter tests/unit/trainers/% tests/unit/worker-sdk/math/% tests/unit/worker-sdk/shm/%,$(unit_sources))): extra_cflags = -Og

# Some tests replace functions ("/* replaces: malloc connect */" lines): the linker binds
# what they call to the test's __wrap_malloc.
replaced = $(foreach f,$(shell sed -n 's|^/\* replaces: \(.*\) \*/$$|\1|p' $(patsubst $(O)/obj/%.o,%.c,$(filter $(O)/obj/tests/unit/%,$^))),-Wl,--wrap=$(f))

# The CUDA twin's kernels, compiled for the host, where tests run them.
host_kernels := $(O)/obj/host/kernels.cu.o
$(host_kernels): $(O)/obj/kernels.cu tests/unit/trainers/cuda/on_host.h
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX   $<")
	$(Q)$(CXX) -x c++ -std=c++17 -O1 -g -I. -include tests/unit/trainers/cuda/on_host.h -MMD -MP $(warnings) \
		-Wno-unknown-pragmas -Wno-unused-parameter -fPIC -fvisibility=hidden $(san_flags) -c -o $@ $<
$(O)/obj/host/%.o: tests/unit/trainers/cuda/%.cc tests/unit/trainers/cuda/on_host.h Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX   $<")
	$(Q)$(CXX) -std=c++17 -O3 -fassociative-math -fno-signed-zeros -fno-trapping-math -g -I. -isystem $(CUDA)/include -fPIC $(warnings) -Wno-unused-parameter $(san_flags) -c -o $@ $<
$(O)/tests/test_kernels $(addprefix $(O)/tests/test_kernels_,norm update): $(host_kernels) $(O)/obj/host/on_host.o
$(O)/tests/test_kernels $(addprefix $(O)/tests/test_kernels_,norm update): private extra_libs = -lstdc++

# The whole twin on the host, for DDP_CUDA_OPS; it only needs CUDA's headers.
host_twin := $(if $(has_cudnn),$(O)/tests/libddp_cuda_ops.so)
$(O)/tests/libddp_cuda_ops.so: $(filter-out %.cu.o,$(cuda_ops_objs)) $(host_kernels) $(patsubst %,$(O)/obj/host/%.o,on_host on_host_cuda on_host_dnn on_host_graph on_host_run on_host_blas)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CXX) $(all_ldflags) -shared -Wl,-Bsymbolic -o $@ $^

# Small programs that the end-to-end tests start, in folders by what they are, and
# those of the benchmarks that use libddp or our protocol.
program_sources := $(filter-out $(if $(has_jpeg),,%/draw_image.c),$(wildcard tests/programs/*/*.c tests/chaos/*.c))
test_programs := $(patsubst %.c,$(O)/tests/%,$(notdir $(program_sources)))
$(foreach s,$(program_sources),$(eval $(O)/tests/$(basename $(notdir $s)): $(call objs,$s)))
bench_clients := $(patsubst tests/bench/%.c,$(O)/bench/%,$(wildcard tests/bench/bench_*.c))
$(bench_clients): $(O)/bench/%: $(O)/obj/tests/bench/%.o
# One of them uses parts of the server.
server_parts := $(call objs,rendezvous/election/election.c rendezvous/journal/journal_etcd.c $(wildcard etcd/*.c))
$(O)/tests/etcd_election: $(server_parts)
$(O)/tests/etcd_election: private extra_libs = $(uv_libs)
# One of them draws the screen of ddprun top.
$(O)/bench/bench_top: $(call objs,launcher/top/top_rows.c launcher/top/top_screen.c $(wildcard rendezvous/status/*.c))
# One of them copies stacks as ddprun dump does.
$(O)/bench/bench_stop: $(call objs,launcher/inspect/thread_snapshot.c $(wildcard launcher/python/*.c))
# One of them uses libddp's internals.
$(O)/tests/c_share: $(call objs,worker-sdk/kv/gather_relay.c worker-sdk/tcp/tcp_listen.c)
$(test_programs) $(bench_clients): $(client_objs) $(base_objs) $(wire_objs) $(O)/libddp.a
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) $(test_ld) -o $@ $(filter-out %.a,$^) $(O)/libddp.a $(sodium_libs) -lz -lm -lpthread -ldl $(extra_libs)

# libddp's differential fuzzer is one of them, with several files.
fuzz_sdk := $(O)/tests/fuzz_sdk
$(fuzz_sdk): $(call objs,$(wildcard tests/fuzz_sdk/*.c)) $(O)/libddp.a
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(ddp_libs) -lz -lm -lpthread -ldl
# its reference rounds exactly as written
$(call objs,$(wildcard tests/fuzz_sdk/*.c)): extra_cflags = -ffp-contract=off

# So is the store's fuzzer.
fuzz_store := $(O)/tests/fuzz_store
$(fuzz_store): $(call objs,$(wildcard tests/fuzz_store/*.c) rendezvous/auth/client_handshake.c) $(wire_objs) $(base_objs)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(sodium_libs) -lpthread -ldl

# The model checker of the rounds: all of the real code that it calls is pure.
model := $(O)/tests/model
$(model): $(call objs,$(wildcard tests/model/*.c)) $(internal)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(sodium_libs) $(uv_libs)

# What else the benchmarks start, and time with; static, for a fast start.
bench_programs := $(patsubst tests/bench/%.c,$(O)/bench/%,$(filter-out tests/bench/bench_%,$(wildcard tests/bench/*.c)))
$(bench_programs): $(O)/bench/%: tests/bench/%.c
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC    $@")
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 $(warnings) -Wno-unused-parameter -static -o $@ $<

# Programs that call CUDA: those of check-gpu, and the example of docs/sdk.md. nvcc does not link: it knows few options of LDFLAGS.
$(call objs,tests/unit/launcher/plan/test_nccl.c): extra_cflags = $(if $(cuda_header),-isystem $(CUDA)/include)
cuda_libs = -L$(CUDA)/lib64 -Wl,-rpath,$(CUDA)/lib64 -lcudart -lnccl
# Programs that compare or time the trainers' devices load CUDA as the trainers do.
gpu_trainers := gpu_ops gpu_reference gpu_times
gpu_sources := $(filter-out $(gpu_trainers:%=tests/gpu/%.c),$(wildcard tests/gpu/gpu_*.c))
gpu_programs := $(if $(has_nccl),$(patsubst tests/gpu/%.c,$(O)/gpu/%,$(gpu_sources)) $(if $(SAN),,$(O)/gpu/nccl_allreduce))
$(call objs,$(gpu_sources)): extra_cflags = -isystem $(CUDA)/include
$(O)/gpu/gpu_%: $(O)/obj/tests/gpu/gpu_%.o $(O)/libddp.a
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(cuda_libs) $(ddp_libs) -lz -lm -lpthread -ldl
$(O)/gpu/nccl_allreduce: worker-sdk/examples/nccl_allreduce.cu $(O)/libddp.a
	@mkdir -p $(@D)
	$(if $(Q),@echo "  NVCC  $@")
	$(Q)$(CUDA)/bin/nvcc -O2 -Iworker-sdk -c -o $(O)/obj/nccl_allreduce.o $< && $(CXX) $(all_ldflags) -o $@ $(O)/obj/nccl_allreduce.o $(O)/libddp.a $(cuda_libs) $(ddp_libs) -lz -lm -lpthread -ldl

$(gpu_trainers:%=$(O)/gpu/%): $(O)/gpu/%: $(O)/obj/tests/gpu/%.o $(trainer_objs) $(base_objs) $(O)/libddp.a
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(ddp_libs) $(dnnl_libs) -lcjson -lpng -lz -llzma -lm -lpthread -ldl

# Plans convolutions for GPUs that are not there.
conv_plans := $(if $(has_cudnn),$(O)/gpu/conv_plans $(O)/gpu/fused_plans)
$(call objs,tests/gpu/conv_plans.c tests/gpu/fused_plans.c): extra_cflags = -isystem $(CUDA)/include
$(O)/gpu/conv_plans $(O)/gpu/fused_plans: $(O)/gpu/%: $(O)/obj/tests/gpu/%.o $(call objs,trainers/cuda/conv_graph.c trainers/cuda/conv_plan.c trainers/cuda/layout.c trainers/models/resnet_layers.c base/error.c base/file.c)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -L$(CUDA)/lib64 -Wl,-rpath,$(CUDA)/lib64 -lcudnn -lm -ldl

gpu-programs: $(conv_plans) $(gpu_programs) $(gpu_trainers:%=$(O)/gpu/%)
	$(if $(has_nccl),,@echo "no CUDA and NCCL in $(CUDA) (CUDA=...): the programs that call them are left out")

# Stand-ins for CUDA and NCCL, for machines without a GPU (tests/gpu/standin), and the
# programs of check-gpu on them. The compiler checks them against NVIDIA's headers if
# these are installed; the programs always use the stand-ins' own.
standin_headers := -Itests/gpu/standin/include
standin_real := $(if $(and $(cuda_header),$(wildcard $(CUDA)/include/nccl.h)),-isystem $(CUDA)/include,$(standin_headers))
standin_libs := $(addprefix $(O)/standin/,libcuda.so.1 libnvidia-ml.so.1 libcudart.so.13 libnccl.so.2 old/libnccl.so.2)
standin_programs := $(patsubst tests/gpu/%.c,$(O)/standin/%,$(gpu_sources))
standin := $(standin_libs) $(standin_programs)
$(call objs,$(wildcard tests/gpu/standin/*.c)): extra_cflags = $(standin_real)
standin_link = $(CC) $(all_ldflags) -shared -Wl,-soname,$(@F) -Wl,--enable-new-dtags,-rpath,$(abspath $(O)/standin) -o $@ $(filter %.o,$^)
$(O)/standin/libcuda.so.1: $(call objs,$(patsubst %,tests/gpu/standin/%.c,cuda_driver cuda_ptx))
$(O)/standin/libnvidia-ml.so.1: $(call objs,tests/gpu/standin/nvml.c)
$(O)/standin/libcudart.so.13: $(call objs,$(patsubst %,tests/gpu/standin/%.c,cuda_memory cuda_stream))
$(addprefix $(O)/standin/,libcuda.so.1 libnvidia-ml.so.1 libcudart.so.13):
	@mkdir -p $(@D)
	$(Q)$(standin_link) -lpthread
standin_nccl := $(call objs,$(patsubst %,tests/gpu/standin/%.c,nccl_comm nccl_group nccl_kernel nccl_memory nccl_mesh))
$(O)/standin/libnccl.so.2: $(standin_nccl) $(O)/standin/libcudart.so.13
	$(Q)$(standin_link) -L$(O)/standin -l:libcudart.so.13 -lpthread
$(O)/standin/old/libnccl.so.2: $(standin_nccl) $(O)/standin/libcudart.so.13 tests/gpu/standin/old.map
	@mkdir -p $(@D)
	$(Q)$(standin_link) -Wl,--version-script=tests/gpu/standin/old.map -L$(O)/standin -l:libcudart.so.13 -lpthread
$(O)/obj/standin/%.o: tests/gpu/%.c Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC    $<")
	$(Q)$(CC) $(all_cflags) $(standin_headers) -c -o $@ $<
$(standin_programs): $(O)/standin/%: $(O)/obj/standin/%.o $(O)/libddp.a $(standin_libs)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -Wl,--enable-new-dtags,-rpath,$(abspath $(O)/standin) -o $@ $< $(O)/libddp.a -L$(O)/standin -l:libcudart.so.13 -l:libnccl.so.2 $(ddp_libs) -lz -lm -lpthread -ldl

bench-programs: $(bench_programs) $(bench_clients) $(test_programs) $(examples)

# The preloaded library that makes one call of one process fail: `make faults`.
$(O)/tests/faults.so: tests/faults/shim.c
	$(if $(Q),@echo "  LINK  $@")
	$(Q)mkdir -p $(@D) && $(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -fPIC -shared $(warnings) -Wshadow -Wno-unused-parameter -o $@ $< -ldl

tests: all $(O)/tests/faults.so $(unit_tests) $(test_programs) $(bench_clients) $(fuzz_sdk) $(fuzz_store) $(model) $(examples) $(O)/generate gpu-programs $(host_twin) $(standin)

# TSan checks libddp's threads. Only workers are built with it: the launcher's threads
# only wait, for slow files and for a loop that is stuck, the server has none, and under
# TSan libuv does not deliver signals. Other programs are those of a plain build.
plain := $(if $(filter build/thread,$(O)),build,$(O)/plain)
ifeq ($(SAN),thread)
thread_tests := e2e/sdk_async.bats e2e/sdk_misuse.bats e2e/reducer.bats \
	e2e/fuzz_sdk.bats
check: deps
	@$(MAKE) $(all_cores) SAN= O=$(plain) tests
	@$(MAKE) $(all_cores) $(libs) $(test_programs) $(fuzz_sdk) $(O)/tests/test_shm_threads
	@$(shell setarch -R true 2>/dev/null && echo setarch -R) $(O)/tests/test_shm_threads
	@O=$(abspath $(plain)) SAN=$(SAN) DDP_TEST_WORKERS=$(abspath $(O))/tests \
		$(shell setarch -R true 2>/dev/null && echo setarch -R) \
		sh tests/run $(or $(TESTS),$(thread_tests))
else
check: deps
	@$(MAKE) $(all_cores) tests
	@O=$(abspath $(O)) SAN=$(SAN) sh tests/run $(TESTS)
endif

check-cluster: deps
	@$(MAKE) $(all_cores) tests
	@O=$(abspath $(O)) SAN=$(SAN) TEST_JOBS=1 FILE_SECONDS=900 sh tests/run hosts/slurm_hosts.bats \
		$(patsubst tests/%,%,$(wildcard tests/cluster/*.bats))

# SRC is what `apt-get source mpich` unpacks; DIRS chooses folders of its tests.
check-mpich: launcher
	@test -n "$(SRC)" || { echo "give SRC=DIR, which 'apt-get source mpich' unpacked" >&2; exit 2; }
	@O=$(abspath $(O)) sh tests/run-mpich $(SRC) $(DIRS)

# Runs in roots that debootstrap makes once, from the mirror in apt's sources. ROOTS
# are the releases, ROOTS_DIR is where the roots are kept, TESTS the files to run.
check-roots: deps
	@sh deps.sh roots
	@O=$(abspath $(O)) sh tests/run-roots $(TESTS)

# ARM64_ROOT has the libraries for arm64 (build/roots/arm64).
check-apptainer check-upgrade: deb
check-fresh check-arm64 check-image check-apptainer check-upgrade: check-%:
	@sh deps.sh $*
	@O=$(abspath $(O)) sh tests/run-$* $(TESTS)

# The programs that the tests of check-roots start.
cluster-programs: all $(test_programs)

check-gpu: all gpu-programs
	@O=$(abspath $(O)) sh tests/run-gpu

gpu-bundle: all gpu-programs
	@O=$(abspath $(O)) sh tests/gpu/pack $(or $(BUNDLE),$(O)/gpu-bundle)

# Only what it starts: a first look must not wait for the rest.
demo-programs: $(O)/ddprun $(O)/ddprdzv $(O)/mnist_mlp
demo: build-deps
	@$(MAKE) $(all_cores) demo-programs
	@O=$(O) sh tests/demo

bench: deps
	@$(MAKE) $(all_cores) all bench-programs
	@O=$(abspath $(O)) sh tests/bench/run $(BENCH)

# Makes the functions' man pages from ddp.h; docs/man/ddp.3 is the overview.
$(O)/man/ddp_init.3: worker-sdk/ddp.h docs/man/man3.awk
	$(Q)rm -rf $(@D) && mkdir -p $(@D)
	$(Q)awk -v dir=$(@D) -v version=$(VERSION) \
		-v date="$(shell sed -n '1s/.* \([0-9]*-[0-9]*-[0-9]*\) .*/\1/p' docs/man/ddp.3)" \
		-f docs/man/man3.awk $<

# The page is in the tree so that it can be read without building.
man: $(O)/generate
	$(Q)sh docs/man/insert_options.sh $(O)/generate docs/man/ddprun.1 >$(O)/ddprun.1
	$(Q)cat $(O)/ddprun.1 >docs/man/ddprun.1

map: ; $(Q)python3 docs/pictures/map.py

site: $(O)/man/ddp_init.3
	@python3 docs/site.py $(O) $(O)/man

# `make pictures` takes a minute; the benchmarks need an idle machine.
pictures: tests bench-programs
	$(Q)python3 docs/pictures/pictures.py $(O) docs/pictures failure top
	$(Q)$(MAKE) --no-print-directory bench BENCH="launch restart" | python3 docs/pictures/pictures.py $(O) docs/pictures chart

style: $(programs) $(O)/generate
	@O=$(O) sh tests/style

# Both analysers check a file again when it, one of its headers or this file changes.
# Three checks are off, because gcc 12 is always wrong there: leaks (it loses track
# of memory that a struct owns; clang checks for leaks), shifts of vectors, and all
# of cpu_norm_loops.c, whose vectors inlined functions fill. clang inlines calls as
# small as err_set's, so that it knows that errors are negative. max-nodes limits
# the time per function; some would take minutes.
analyze_sources := $(wildcard base/*.c launcher/*.c launcher/*/*.c slurm/*.c pmi/*.c rendezvous/*.c rendezvous/*/*.c etcd/*.c) \
	$(sdk_sources) $(check_sources) $(wildcard trainers/*.c $(patsubst %,trainers/%/*.c,train report data pack models ops $(and $(cuda_header),$(wildcard $(CUDA)/include/cudnn.h),cuda)))
analyze_gcc := $(patsubst %.c,$(O)/obj/analyze/%.gcc,$(filter-out trainers/ops/cpu_norm_loops.c,$(analyze_sources)))
analyze_clang := $(patsubst %.c,$(O)/obj/analyze/%.clang,$(analyze_sources))
analyze_flags = -std=c11 -D_GNU_SOURCE -O2 -I. -MMD -MP -MT $@ -MF $@.d -isystem $(CUDA)/include -Wno-unknown-pragmas \
	-DDDP_VERSION='"$(VERSION)"' -DCUDA_LIBRARIES='"$(CUDA)/lib64"' -DCRASH_LIBRARY='"$(crash_library)"' $(isa_flags)
$(O)/obj/analyze/launcher/crash/crash_catcher.gcc: $(crash_library)
$(O)/obj/analyze/worker-sdk/math/kernels_avx%: isa_flags = $(avx512_flags)
$(O)/obj/analyze/%.gcc: %.c Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  GCC   $<")
	$(Q)gcc $(analyze_flags) -fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-shift-count-overflow -Werror -c -o $@ $<
$(O)/obj/analyze/%.clang: %.c Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CLANG $<")
	$(Q)clang --analyze --analyzer-output text $(analyze_flags) \
		-Xclang -analyzer-config -Xclang ipa-always-inline-size=20,max-nodes=60000 -Xclang -analyzer-werror $<
	$(Q)touch $@

portable: ; @sh tests/portable
analyze:
	@$(MAKE) $(all_cores) -k $(analyze_gcc) $(analyze_clang)

# Uses the programs that `make tests` has built; SAN=thread only builds the ranks.
fuzz-sdk: $(if $(filter thread,$(SAN)),,$(programs)) $(fuzz_sdk)
	$(if $(filter thread,$(SAN)),@$(MAKE) $(all_cores) SAN= O=$(plain) $(plain)/ddprun $(plain)/ddprdzv)
	@DDPRUN=$(abspath $(if $(filter thread,$(SAN)),$(plain),$(O)))/ddprun FUZZ_SECONDS=$(FUZZ_SECONDS) \
		$(if $(filter thread,$(SAN)),$(shell setarch -R true 2>/dev/null && echo setarch -R)) $(fuzz_sdk)

# Server and test have one thread each: SAN=address,undefined may find more,
# SAN=thread cannot.
fuzz-store: $(programs) $(fuzz_store)
	@O=$(abspath $(O)) sh tests/fuzz_store/run $(FUZZ_SECONDS) $(FUZZ_SEED)

# Objects of their own; ROOM=launcher/output prints its files instead of all rooms.
coverage: deps
	@$(MAKE) $(all_cores) O=build/coverage CFLAGS="-O0 -g --coverage" LDFLAGS=--coverage tests
	@find build/coverage/obj -name '*.gcda' -delete # of runs before
	-@O=$(abspath build/coverage) sh tests/run $(TESTS)
	@python3 tests/coverage build/coverage/obj $(ROOM)

model: $(model) ; @$(model) --seconds $(or $(MODEL_SECONDS),60) $(NODES:%=--nodes %) $(DEPTH:%=--depth %) $(FAULTS:%=--faults %)
litmus: ; @python3 tests/model/litmus/check
planted: ; @CC="$(CC)" CXX="$(CXX)" sh tests/planted/run $(PLANTED)

fuzz: $(crash_library) ; @O=$(abspath $(O)) FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) sh tests/fuzz/run $(FUZZ)

# The first lines of the script document FOR, CALL, JOB, AT, N, SEED, JOBS, LOG.
faults: deps
	@$(MAKE) $(all_cores) $(programs) $(O)/tests/c_sums $(O)/tests/faults.so
	@O=$(abspath $(O)) tests/faults/run

# The first lines of the script document JOBS, PYTHON, KEEP.
failures: deps
	@$(MAKE) $(all_cores) $(programs) $(O)/tests/host
	@O=$(abspath $(O)) python3 tests/failures/run.py $(FOR)

# The first lines of the script document SECONDS, SEED, TRIAL, N, WAY, KIND, KEEP, LOG.
chaos: deps
	@$(MAKE) --no-print-directory $(programs) $(addprefix $(O)/tests/,host c_chaos chaos_switch)
	@O=$(abspath $(O)) tests/chaos/run

# The first lines of the script document FOR, N, SEED, AT, KEY, TESTS, BUDGET, JOBS, LOG.
mutants: deps
	@CC="$(CC)" CXX="$(CXX)" CUDA="$(CUDA)" LDFLAGS="$(LDFLAGS)" tests/mutants/run

# ---- style, analysis, installation

include packaging/install.mk

wheel: ; @python3 python/build_wheel.py . $(O) $(VERSION) "$(ARCH)" $(MAKE) $(all_cores)
clean: ; rm -rf build

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
