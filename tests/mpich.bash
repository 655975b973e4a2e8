# mpich.bash: programs that contain Debian's MPICH, and a program of any MPI 4. Load it
# after lib.
#
#   static_mpich_or_skip  skips the test where libmpich.a is not installed
#   static_mpich WORD...  cc with these words, which name the program and its source
#   session_program       writes session.c: ranks that meet through a session, without
#                         MPI_Init

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

session_program() {
	cat >session.c <<-'E'
		#include <mpi.h>
		#include <stdio.h>

		int main(void)
		{
			int rank, size, sum, one = 1, code, kind = 0;
			MPI_Session session;
			MPI_Group group;
			MPI_Comm all;

			MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
			MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
			MPI_Group_rank(group, &rank);
			MPI_Group_size(group, &size);
			code = MPI_Comm_create_from_group(group, "test", MPI_INFO_NULL,
							  MPI_ERRORS_RETURN, &all);
			MPI_Group_free(&group);
			if (code) {
				MPI_Error_class(code, &kind);
				printf("rank %d of %d: %s\n", rank, size,
				       kind == MPI_ERR_UNSUPPORTED_OPERATION
				       ? "unsupported" : "another error");
			} else {
				MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
				MPI_Comm_free(&all);
				printf("rank %d of %d, sum %d\n", rank, size, sum);
			}
			return MPI_Session_finalize(&session);
		}
	E
}
