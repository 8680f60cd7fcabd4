/* Turns: bytes that a program takes of a rate in advance. Included by programs that let senders wait. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_PACING_TURN_H
#define CARRICK_PACING_TURN_H

#include "pacing.h"

/* What is taken of a rate at a time: this many turns a second, within these bounds (as pacing/turn.rs). */
#define PACE_TURNS_PER_SECOND 50
#define PACE_QUANTUM_MIN (4 << 10)
#define PACE_QUANTUM_MAX (256 << 10)

/* A way that waits. */
struct held_way {
	__u32 direction; /* the number of its sender's connection, as in `flows` */
	__u32 bucket;    /* the bucket it waits for: its number plus 1, or 0 */
	__u64 go_at_ns;  /* when its turn comes */
	__u64 reserved;  /* the bytes that it has taken of that bucket in advance */
	__u64 paid_rates; /* the levels whose own rates these are charged to: a bit each, the bucket's is the lowest */
	__u64 changes;   /* the control block's, at that time */
	/* While a turn is taken. In a map, whose values the verifier does not track: so it follows each level once. */
	__u64 lowest_rate;
	__u64 under_ns;   /* when all ceilings let it go */
	__u32 own_level;  /* the lowest one whose own rate lets it go first; `PACE_LEVELS`: none does */
};

/* Those at hand: the stack has no room for them. A packet may interrupt a program that grants. */
enum {
	WAIT_OF_PACKET = 0,
	WAIT_OF_GRANT = 1,
	WAITS = 2,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WAITS);
	__type(key, __u32);
	__type(value, struct held_way);
} waits SEC(".maps");

/* When a bucket's debt at its ceiling is paid off, as far as bytes of this urgency wait for that. */
GLOBAL_FUNCTION __u64 pace_ceiling_due(struct pace_bucket *at, __u64 urgency)
{
	if (!at)
		return 0;
	return IS_WITHIN(urgency, 1, PACE_URGENCIES) ? at->urgent_due_ns[urgency - 1] : at->ceiling_due_ns;
}

/* Takes a turn's bytes in advance, as splices in the process do, so that both are served in the order of arrival. */
GLOBAL_FUNCTION int pace_reserve(__u32 wait, __u64 now)
{
	__u64 urgency = 0, due;
	__u32 zero = 0, bucket;
	struct pace_block *block = bpf_map_lookup_elem(&pace, &zero);
	struct held_way *way = bpf_map_lookup_elem(&waits, &wait);
	int is_own;

	if (!block || !way)
		return 0;
	way->changes = block->changes;
	way->go_at_ns = way->reserved = way->paid_rates = way->under_ns = 0;
	bucket = way->bucket;
	if (!bucket)
		return 0;
	way->go_at_ns = ~0ULL;
	way->lowest_rate = PACE_QUANTUM_MAX * PACE_TURNS_PER_SECOND;
	way->own_level = PACE_LEVELS;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		if (at->ceiling) {
			due = pace_ceiling_due(at, urgency);
			if (due > way->under_ns + at->burst_ns)
				way->under_ns = due - at->burst_ns;
			if (at->ceiling < way->lowest_rate)
				way->lowest_rate = at->ceiling;
		}
		/* What it has of its own does not wait for those above. */
		if (at->rate) {
			due = at->rate_due_ns > way->under_ns + at->burst_ns ? at->rate_due_ns - at->burst_ns : way->under_ns;
			if (due < way->go_at_ns) {
				way->go_at_ns = due;
				way->own_level = level;
			}
		}
		urgency = at->urgency;
		bucket = at->parent;
	}
	if (way->go_at_ns >= way->under_ns) {
		way->go_at_ns = way->under_ns;
		way->own_level = PACE_LEVELS;
	}
	way->reserved = way->lowest_rate / PACE_TURNS_PER_SECOND;
	if (way->reserved < PACE_QUANTUM_MIN)
		way->reserved = PACE_QUANTUM_MIN;
	urgency = 0;
	bucket = way->bucket;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		/* What goes by its own rate is charged to it, and to those above that would let it go before their parents. */
		is_own = level >= way->own_level && at->rate_due_ns < way->under_ns + at->burst_ns;
		if (pace_charge(at, urgency, way->reserved, now, is_own))
			way->paid_rates |= 1 << level;
		urgency = at->urgency;
		bucket = at->parent;
	}
	return 0;
}

static __always_inline void pace_unpay(__u64 *due_ns, __u64 rate, __u64 bytes)
{
	__u64 was = *(volatile __u64 *)due_ns, cost = bytes * PACE_SECOND_NS / rate;

	__sync_val_compare_and_swap(due_ns, was, was > cost ? was - cost : 0);
}

/* Gives back to a bucket what was taken in advance. */
GLOBAL_FUNCTION int pace_refund(struct pace_bucket *at, __u64 urgency, __u64 bytes, int is_rate_paid)
{
	if (!at)
		return 0;
	if (at->ceiling) {
		pace_unpay(&at->ceiling_due_ns, at->ceiling, bytes);
		for (int below = 0; below < PACE_URGENCIES && below < urgency; below++)
			pace_unpay(&at->urgent_due_ns[below], pace_urgent_rate(at->ceiling, below), bytes);
	}
	if (at->rate && is_rate_paid)
		pace_unpay(&at->rate_due_ns, at->rate, bytes);
	__sync_fetch_and_add(&at->taken, -bytes);
	return 0;
}

/* The same, to all of a turn's buckets. */
GLOBAL_FUNCTION int pace_give_back(__u32 wait)
{
	__u32 zero = 0, bucket;
	__u64 urgency = 0;
	struct pace_block *block = bpf_map_lookup_elem(&pace, &zero);
	struct held_way *way = bpf_map_lookup_elem(&waits, &wait);

	if (!block || !way || !way->reserved)
		return 0;
	bucket = way->bucket;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		pace_refund(at, urgency, way->reserved, way->paid_rates >> level & 1);
		urgency = at->urgency;
		bucket = at->parent;
	}
	way->reserved = 0;
	return 0;
}

#endif
