/* Splices that outlive their process: whether a process attends to them, and when abandoned ones are given up. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_PULSE_H
#define CARRICK_TC_PULSE_H

/* If no process has attended to the splices for UNATTENDED_NS, those in which nothing was forwarded for FORSAKEN_NS
 * are given up. */
#define UNATTENDED_NS (60LL * 1000000000)
#define FORSAKEN_NS (3LL * 3600 * 1000000000)

/* The resolution of a pulse. */
#define PULSE_NS 1000000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_pulse);
} pulse SEC(".maps");

/* Whether the process has died without a successor, and this splice's peers are gone, too. */
static __always_inline int is_forsaken(const struct packet_splice *splice, __u64 now)
{
	struct packet_pulse *last;
	__u32 first = 0;

	/* With a sign, since another CPU may have noted a later time meanwhile. */
	if (splice->state < PACKET_SPLICED || (__s64)(now - splice->seen_ns) < FORSAKEN_NS)
		return 0;
	last = bpf_map_lookup_elem(&pulse, &first);
	return last && last->attended_ns && (__s64)(now - last->attended_ns) > UNATTENDED_NS;
}

static __always_inline void note_pulse(__u64 now)
{
	struct packet_pulse *last;
	__u32 first = 0;

	last = bpf_map_lookup_elem(&pulse, &first);
	if (last && now - last->forwarded_ns > PULSE_NS)
		last->forwarded_ns = now;
}

#endif
