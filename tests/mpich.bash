# mpich.bash: programs that contain Debian's MPICH. Load it after lib.
#
#   static_mpich_or_skip  skips the test where libmpich.a is not installed
#   static_mpich WORD...  cc with these words, which name the program and its source

static_mpich_or_skip() {
	command -v mpicc.mpich >/dev/null && [ -e "$(cc -print-file-name=libmpich.a)" ] ||
		skip "libmpich.a is not installed (libmpich-dev)"
}

static_mpich() {
	local needs
	# what the library itself needs
	needs=$(readelf -d "$(cc -print-file-name=libmpich.so)" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/-l:\1/p')
	cc -I"/usr/include/$(cc -print-multiarch)/mpich" "$@" "$(cc -print-file-name=libmpich.a)" $needs
}
