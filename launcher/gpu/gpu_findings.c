/* gpu_findings.c: one function for each thing that NVML counts, and the table
 * of Xid errors. */
#include "launcher/gpu/gpu_findings.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- the numbers of Xid errors ----
 *
 * The kinds follow NVIDIA's k8s-device-plugin (internal/rm/health.go), which
 * takes 13, 31, 43, 45, 68 and 109 for errors of the application; the actions
 * follow the catalog's resolution buckets. */

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

enum gpu_reported {
	REPORTED_LOST = 1, REPORTED_ECC = 2, REPORTED_PENDING = 4,
	REPORTED_REMAP = 8, REPORTED_LINK = 16, REPORTED_LINK_ERRORS = 32,
	REPORTED_SLOWDOWN = 64, REPORTED_HEAT = 128, REPORTED_POWER = 256,
	REPORTED_OLD_ECC = 512, REPORTED_FEWER_LINKS = 1024,
	/* these happen; the others are states that last */
	REPORTED_EVENTS = REPORTED_ECC | REPORTED_LINK_ERRORS,
};

/* nvmlClocksThrottleReasons. A limit of power that was set (0x4) and an idle
 * GPU (0x1) are ordinary. */
enum {
	THROTTLE_HARDWARE = 0x8, THROTTLE_SOFT_HEAT = 0x20,
	THROTTLE_HEAT = 0x40, THROTTLE_POWER_BRAKE = 0x80,
};

enum { XID_OFF_THE_BUS = 79 };

#define RESET                                                                 \
	"drain the node and reset the GPU (nvidia-smi --gpu-reset), or reboot"

const char *gpu_severity_name(enum gpu_severity s)
{
	static const char *const names[GPU_SEVERITIES] = {
		[GPU_NOTE] = "note", [GPU_PROGRAM] = "program",
		[GPU_SLOW] = "slow", [GPU_BROKEN] = "broken",
	};

	return s < GPU_SEVERITIES ? names[s] : "?";
}

/* Reports it unless this bit has been reported. */
__attribute__((format(printf, 6, 7))) static void
gpu_findings_put(struct gpu_findings *all, struct gpu_seen *s, unsigned bit,
		 struct gpu_finding f, const char *action, const char *fmt, ...)
{
	va_list ap;

	if (s->reported & bit)
		return;
	s->reported |= bit;
	f.index = s->last.index;
	f.action = action;
	memcpy(f.uuid, s->last.uuid, sizeof(f.uuid));
	va_start(ap, fmt);
	vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	all->on_finding(all->owner, &f);
}

static void gpu_findings_lost(struct gpu_findings *all, struct gpu_seen *s)
{
	if (s->last.is_lost != 1)
		return;
	/* the Xid has named it */
	if (s->xids[XID_OFF_THE_BUS / 32] >> XID_OFF_THE_BUS % 32 & 1)
		return;
	gpu_findings_put(all, s, REPORTED_LOST,
			 (struct gpu_finding){.severity = GPU_BROKEN,
					      .is_new = s->first.is_lost != 1},
			 "drain the node and power it off and on; if it "
			 "returns, have power, cooling and seat of the GPU "
			 "examined",
			 "GPU %u: lost: it no longer answers the driver",
			 s->last.index);
}

static void gpu_findings_ecc(struct gpu_findings *all, struct gpu_seen *s)
{
	long long rise = (long long)(s->last.ecc_volatile -
				     s->first.ecc_volatile);

	if (s->first.ecc_volatile > 0)
		gpu_findings_put(all, s, REPORTED_OLD_ECC,
				 (struct gpu_finding){.severity = GPU_NOTE},
				 "reset the GPU when the job is over",
				 "GPU %u: has had %lld uncorrected memory "
				 "errors (ECC) since its driver was loaded",
				 s->last.index,
				 (long long)s->first.ecc_volatile);
	if (s->first.ecc_volatile >= 0 && rise > 0)
		gpu_findings_put(all, s, REPORTED_ECC,
				 (struct gpu_finding){.severity = GPU_BROKEN,
						      .is_new = 1},
				 RESET "; if it returns, report the GPU to its "
				       "vendor",
				 "GPU %u: %lld uncorrected memory error%s "
				 "(ECC)", s->last.index, rise,
				 rise == 1 ? "" : "s");
}

static void gpu_findings_remap(struct gpu_findings *all, struct gpu_seen *s)
{
	if (s->last.remap_pending == 1)
		gpu_findings_put(all, s, REPORTED_PENDING,
				 (struct gpu_finding){.severity = GPU_NOTE},
				 "reset the GPU when the job is over",
				 "GPU %u: a memory row waits to be remapped",
				 s->last.index);
	if (s->last.remap_failed == 1)
		gpu_findings_put(all, s, REPORTED_REMAP,
				 (struct gpu_finding){
					 .severity = GPU_BROKEN,
					 .is_new = s->first.remap_failed != 1},
				 "have the GPU replaced",
				 "GPU %u: a memory row could not be remapped",
				 s->last.index);
}

static void gpu_findings_links(struct gpu_findings *all, struct gpu_seen *s)
{
	const struct gpu_record *was = &s->first, *now = &s->last;

	if (was->nvlinks_inactive >= 0 &&
	    now->nvlinks_inactive > was->nvlinks_inactive)
		gpu_findings_put(all, s, REPORTED_LINK,
				 (struct gpu_finding){.severity = GPU_BROKEN,
						      .is_new = 1},
				 RESET "; look at nvidia-smi nvlink -s",
				 "GPU %u: %lld of %lld NVLinks went down",
				 now->index,
				 (long long)(now->nvlinks_inactive -
					     was->nvlinks_inactive),
				 (long long)now->nvlinks);
	if (was->nvlink_errors >= 0 && now->nvlink_errors > was->nvlink_errors)
		gpu_findings_put(all, s, REPORTED_LINK_ERRORS,
				 (struct gpu_finding){.severity = GPU_SLOW,
						      .is_new = 1},
				 "look at nvidia-smi nvlink -e; a link that "
				 "keeps counting has to be examined",
				 "GPU %u: NVLink errors: %lld more",
				 now->index,
				 (long long)(now->nvlink_errors -
					     was->nvlink_errors));
}

/* Only what two reads in a row have seen: a moment is ordinary. */
static void gpu_findings_throttle(struct gpu_findings *all, struct gpu_seen *s,
				  int64_t before)
{
	int64_t both = before > 0 && s->last.throttle > 0
			       ? before & s->last.throttle : 0;
	const struct gpu_finding slow = {.severity = GPU_SLOW, .is_new = 1};

	if (both & (THROTTLE_HEAT | THROTTLE_SOFT_HEAT))
		gpu_findings_put(all, s, REPORTED_HEAT, slow,
				 "look at the cooling of the node",
				 "GPU %u: slowed down: too hot (%lld degrees "
				 "Celsius)", s->last.index,
				 (long long)s->last.temperature);
	else if (both & THROTTLE_POWER_BRAKE)
		gpu_findings_put(all, s, REPORTED_POWER, slow,
				 "look at the power supply of the node",
				 "GPU %u: slowed down: its power brake is on",
				 s->last.index);
	else if (both & THROTTLE_HARDWARE)
		gpu_findings_put(all, s, REPORTED_SLOWDOWN, slow,
				 "look at nvidia-smi -q -d PERFORMANCE",
				 "GPU %u: slowed down by its hardware",
				 s->last.index);
}

void gpu_findings_add(struct gpu_findings *all, const struct gpu_record *r)
{
	struct gpu_seen *s = &all->gpus[r->index];
	int64_t before = s->is_known ? s->last.throttle : 0;

	s->last = *r;
	if (!s->is_known)
		s->first = *r;
	s->is_known = 1;
	gpu_findings_lost(all, s);
	gpu_findings_ecc(all, s);
	gpu_findings_remap(all, s);
	gpu_findings_links(all, s);
	gpu_findings_throttle(all, s, before);
}

/* The most links that a GPU of the same kind has; -1: there is no other. */
static int64_t gpu_findings_peer_links(const struct gpu_findings *all,
				       const struct gpu_seen *s)
{
	int64_t most = -1;

	for (int i = 0; i < GPU_WATCHED_MAX; i++) {
		const struct gpu_seen *peer = &all->gpus[i];
		int64_t n = peer->last.nvlinks - peer->last.nvlinks_inactive;

		if (peer != s && peer->is_known &&
		    peer->last.nvlinks_inactive >= 0 &&
		    strcmp(peer->last.name, s->last.name) == 0 && n > most)
			most = n;
	}
	return most;
}

void gpu_findings_compare(struct gpu_findings *all)
{
	for (int i = 0; i < GPU_WATCHED_MAX; i++) {
		struct gpu_seen *s = &all->gpus[i];
		int64_t most, n = s->last.nvlinks - s->last.nvlinks_inactive;

		if (!s->is_known || s->last.nvlinks_inactive <= 0 ||
		    s->reported & REPORTED_LINK)
			continue;
		most = gpu_findings_peer_links(all, s);
		if (n < most)
			gpu_findings_put(all, s, REPORTED_FEWER_LINKS,
					 (struct gpu_finding){
						 .severity = GPU_SLOW},
					 RESET "; look at nvidia-smi nvlink -s",
					 "GPU %u: %lld active NVLinks; another "
					 "GPU of this kind has %lld",
					 s->last.index, (long long)n,
					 (long long)most);
	}
}

static enum gpu_severity gpu_findings_severity(const struct gpu_xid *x)
{
	if (x->kind == GPU_XID_BROKEN)
		return GPU_BROKEN;
	return x->kind == GPU_XID_PROGRAM ? GPU_PROGRAM : GPU_NOTE;
}

void gpu_findings_xid(struct gpu_findings *all, uint32_t index, uint32_t xid,
		      uint32_t instance)
{
	struct gpu_seen *s = &all->gpus[index];
	const struct gpu_xid *x = gpu_xid_find(xid);
	char part[32] = "";
	uint32_t bit = xid < GPU_XIDS_TRACKED ? xid : 0;

	if (s->xids[bit / 32] >> bit % 32 & 1)
		return;
	s->xids[bit / 32] |= UINT32_C(1) << bit % 32;
	s->last.index = index;
	if (instance != GPU_NO_INSTANCE)
		snprintf(part, sizeof(part), ", instance %u", instance);
	gpu_findings_put(all, s, 0,
			 (struct gpu_finding){
				 .severity = gpu_findings_severity(x),
				 .xid = xid, .is_new = 1},
			 x->action, "GPU %u%s: Xid %u, %s", index, part, xid,
			 x->meaning);
}

void gpu_findings_begin(struct gpu_findings *all)
{
	for (int i = 0; i < GPU_WATCHED_MAX; i++) {
		struct gpu_seen *s = &all->gpus[i];

		memset(s->xids, 0, sizeof(s->xids));
		s->first = s->last;
		s->reported &= ~(unsigned)REPORTED_EVENTS;
	}
}
