# covers: Makefile
load ../lib

# What `make install` and `make deb` install, and that it works from there.

tree=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

make_it() {
	make -s -C "$tree" DEPS=0 O="$O" SAN="${SAN:-}" "$@" >make.log 2>&1 ||
		{ cat make.log; return 1; }
}

@test "the installed programs run, and a program builds against the installation" {
	command -v pkg-config >/dev/null || skip "no pkg-config here"
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	make_it install DESTDIR="$T" PREFIX=/opt/ddp
	local at=$T/opt/ddp
	printf '%s\n' '#include <ddp.h>' '#include <stdio.h>' \
		'int main(void) { ddp_comm *c; if (ddp_init(&c, NULL)) return 1;' \
		'printf("rank %d of %d\n", ddp_rank(c), ddp_world_size(c));' \
		'ddp_finalize(c); return 0; }' >who.c
	export PKG_CONFIG_PATH=$at/lib/pkgconfig
	[ "$(pkg-config --variable=prefix ddp)" = /opt/ddp ]
	${CC:-gcc} -o who who.c $(pkg-config --define-prefix --cflags --libs ddp) \
		-Wl,-rpath,"$at/lib"
	expect 0 env -u DDP_SERVER PATH="$at/bin:/usr/bin:/bin" \
		ddprun --standalone --nproc-per-node 2 ./who
	[ "$(sort <<<"$out")" = $'[0] rank 0 of 2\n[1] rank 1 of 2' ]
	[ -s "$at/share/man/man1/ddprun.1" ]
	# what docs/trainers.md says to call
	local p
	for p in mnist_mlp mnist_ae resnet toy_mp; do
		expect 0 "$at/libexec/ddprun/$p" --version
		has "$out" "^$p "
	done
	expect 2 "$at/libexec/ddprun/get-data"
	has "$err" '^usage: .*get-data mnist.cifar10'
	expect 2 "$at/bin/ddp-plot"
	has "$err" '^ddp-plot: error: no run to plot'
	[ -s "$at/share/bash-completion/completions/ddprun" ]
	# batch scripts find the trainers installed with them
	grep -q "^PATH=.PATH:/opt/ddp/libexec/ddprun\$" \
		"$at/share/ddprun/slurm/several_nodes.sbatch"
	# every program and every function has its manual page
	local f
	for f in "$at"/bin/*; do
		f=${f##*/}
		[ -s "$at/share/man/man1/$f.1" ] || { echo "no $f.1"; false; }
	done
	for f in $(nm -D --defined-only "$at/lib/libddp.so" |
		sed -n 's/.* T \(ddp_[a-z_]*\).*/\1/p'); do
		[ -s "$at/share/man/man3/$f.3" ] || { echo "no $f.3"; false; }
	done
}

@test "programs and libraries are hardened" {
	[ -z "${SAN:-}" ] || skip "sanitizers have checks of their own"
	local p
	for p in ddprun ddprdzv libddp.so mnist_mlp resnet; do
		has "$(readelf -d "$O/$p")" BIND_NOW
		has "$(readelf -lW "$O/$p")" GNU_RELRO
		has "$(nm -D "$O/$p")" ' __stack_chk_fail@'
		has "$(nm -D "$O/$p")" ' __[a-z]*_chk@'
		case $p in
		*.so) ;;
		*) has "$(readelf -hW "$O/$p")" 'Type: *DYN' ;;
		esac
	done
}

@test "a program builds against the build tree, and runs" {
	command -v pkg-config >/dev/null || skip "no pkg-config here"
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	make_it "$O/ddp.pc"
	${CC:-gcc} -o fit_line "$tree/worker-sdk/examples/fit_line.c" \
		$(pkg-config --cflags --libs "$O/ddp.pc")
	expect 0 ddprun --standalone --nproc-per-node 2 ./fit_line
	[ "$out" = "[0] y = 2.00x + 1.00" ]
}

@test "the package has the programs, the library and the manuals" {
	command -v dpkg-deb >/dev/null || skip "no dpkg-deb here"
	[ -z "${SAN:-}" ] || skip "nobody packs what is sanitized"
	local package
	make_it deb
	package=$(echo "$O"/ddprun_*.deb)
	dpkg-deb --contents "$package" >contents
	for f in bin/ddprun bin/ddprdzv bin/ddp-plot libexec/ddprun/resnet \
		libexec/ddprun/get-data lib/libddp.a include/ddp.h \
		share/ddprun/slurm/one_node.sbatch share/ddprun/slurm/interactive.txt \
		share/man/man1/ddprun.1 share/man/man1/ddp-plot.1 \
		share/man/man3/ddp.3; do
		grep -q " ./usr/$f\$" contents
	done
	[ "$(dpkg-deb --field "$package" Package)" = ddprun ]
	dpkg-deb --extract "$package" root
	[ "$(root/usr/bin/ddprun --nproc-per-node 1 echo hi)" = '[0] hi' ]
}
