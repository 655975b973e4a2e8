/* gpu_xid.c: the table. The kinds follow NVIDIA's k8s-device-plugin
 * (internal/rm/health.go), which takes 13, 31, 43, 45, 68 and 109 for errors
 * of the application; the actions follow the catalog's resolution buckets. */
#include "launcher/gpu/gpu_xid.h"

#include <stddef.h>

#define RESET                                                                 \
	"drain the node and reset the GPU (nvidia-smi --gpu-reset), or reboot"
#define REPORT RESET "; if it returns, report the GPU to its vendor"
#define DEBUG "look at the program (compute-sanitizer); the GPU is fine"

static const struct gpu_xid xids[] = {
	{13, GPU_XID_PROGRAM, "the program ran an illegal instruction or "
	 "address on the GPU", DEBUG},
	{31, GPU_XID_PROGRAM, "the program used GPU memory that is not mapped",
	 DEBUG},
	{32, GPU_XID_BROKEN, "the PCIe link delivered a corrupt command",
	 RESET},
	{43, GPU_XID_PROGRAM, "the driver ended the program's work on the GPU "
	 "after an error of the program", DEBUG},
	{45, GPU_XID_PROGRAM, "the driver cleaned up after a process that "
	 "ended", "look for what ended the process first"},
	{48, GPU_XID_BROKEN, "uncorrectable memory error (double bit ECC)",
	 REPORT},
	{61, GPU_XID_BROKEN, "its power controller stopped at an error", RESET},
	{62, GPU_XID_BROKEN, "its power controller halted", RESET},
	{63, GPU_XID_RECORDED, "a memory row will be remapped",
	 "reset the GPU when the job is over"},
	{64, GPU_XID_BROKEN, "a memory row could not be remapped", REPORT},
	{68, GPU_XID_PROGRAM, "exception in the video decoder", DEBUG},
	{69, GPU_XID_PROGRAM, "the program gave the GPU an illegal command",
	 DEBUG},
	{74, GPU_XID_BROKEN, "NVLink error", "drain the node, reset all its "
	 "GPUs, and look at nvidia-smi nvlink -e; then have link, bridge or "
	 "board examined"},
	{79, GPU_XID_BROKEN, "fell off the bus", "drain the node and power it "
	 "off and on; if it returns, have power, cooling and seat of the GPU "
	 "examined"},
	{92, GPU_XID_RECORDED, "many corrected memory errors",
	 "watch the GPU; nothing has been lost"},
	{94, GPU_XID_BROKEN, "uncorrectable memory error, contained",
	 "restart the job: only the processes that used that memory were "
	 "hit; reset the GPU when it is idle"},
	{95, GPU_XID_BROKEN, "uncorrectable memory error, not contained",
	 REPORT},
	{109, GPU_XID_PROGRAM, "a kernel of the program did not yield in time",
	 DEBUG},
	{110, GPU_XID_BROKEN, "security fault", RESET},
	{119, GPU_XID_BROKEN, "its system processor (GSP) does not answer",
	 RESET},
	{120, GPU_XID_BROKEN, "error of its system processor (GSP)", RESET},
	{121, GPU_XID_RECORDED, "corrected error of the link to the CPU (C2C)",
	 "watch the GPU; reset it when the job is over"},
	{140, GPU_XID_BROKEN, "uncorrected memory error", REPORT},
	{143, GPU_XID_BROKEN, "it could not be initialized", REPORT},
	{154, GPU_XID_RECORDED, "its recovery action has changed",
	 "look at the Xid before it, and at nvidia-smi -q"},
};

const struct gpu_xid *gpu_xid_find(uint32_t number)
{
	static const struct gpu_xid unknown = {
		0, GPU_XID_RECORDED, "which ddprun does not know",
		"look the number up in NVIDIA's Xid catalog "
		"(docs.nvidia.com/deploy/xid-errors)"};

	for (size_t i = 0; i < sizeof(xids) / sizeof(*xids); i++)
		if (xids[i].number == number)
			return &xids[i];
	return &unknown;
}
