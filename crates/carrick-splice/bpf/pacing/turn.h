/* Turns: bytes that a program takes of a rate in advance. Included by programs that let senders wait. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_PACING_TURN_H
#define CARRICK_PACING_TURN_H

#include "pacing.h"

/* What is taken of a rate at a time: this many turns a second, within these bounds (as pacing/turn.rs). */
#define PACE_TURNS_PER_SECOND 50
#define PACE_QUANTUM_MIN (4 << 10)
#define PACE_QUANTUM_MAX (256 << 10)

/* Bytes taken in advance, and when they may go. */
struct pace_turn {
	__u64 go_at_ns;
	__u64 bytes;
};

/* When a bucket's debt at its ceiling is paid off, as far as bytes of this urgency wait for that. */
GLOBAL_FUNCTION __u64 pace_ceiling_due(struct pace_bucket *at, __u64 urgency)
{
	if (!at)
		return 0;
	return IS_WITHIN(urgency, 1, PACE_URGENCIES) ? at->urgent_due_ns[urgency - 1] : at->ceiling_due_ns;
}

/* Takes a turn's bytes in advance, as splices in the process do, so that both are served in the order of arrival. */
static __noinline int pace_reserve(struct pace_block *block, __u32 bucket, __u64 now, struct pace_turn *turn)
{
	__u64 lowest = PACE_QUANTUM_MAX * PACE_TURNS_PER_SECOND, under = 0, go_at = ~0ULL, urgency = 0, due;
	__u32 first = bucket;

	if (!block)
		return 0;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		if (at->ceiling) {
			due = pace_ceiling_due(at, urgency);
			if (due > under + at->burst_ns)
				under = due - at->burst_ns;
			if (at->ceiling < lowest)
				lowest = at->ceiling;
		}
		/* What it has of its own does not wait for those above. */
		if (at->rate) {
			due = at->rate_due_ns > under + at->burst_ns ? at->rate_due_ns - at->burst_ns : under;
			go_at = due < go_at ? due : go_at;
		}
		urgency = at->urgency;
		bucket = at->parent;
	}
	turn->go_at_ns = under < go_at ? under : go_at;
	turn->bytes = lowest / PACE_TURNS_PER_SECOND;
	if (turn->bytes < PACE_QUANTUM_MIN)
		turn->bytes = PACE_QUANTUM_MIN;
	bucket = first;
	urgency = 0;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		pace_charge(at, urgency, turn->bytes, now);
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
GLOBAL_FUNCTION int pace_refund(struct pace_bucket *at, __u64 urgency, __u64 bytes)
{
	if (!at)
		return 0;
	if (at->ceiling) {
		pace_unpay(&at->ceiling_due_ns, at->ceiling, bytes);
		for (int below = 0; below < PACE_URGENCIES && below < urgency; below++)
			pace_unpay(&at->urgent_due_ns[below], pace_urgent_rate(at->ceiling, below), bytes);
	}
	if (at->rate)
		pace_unpay(&at->rate_due_ns, at->rate, bytes);
	__sync_fetch_and_add(&at->taken, -bytes);
	return 0;
}

/* The same, to all of a turn's buckets. */
static __noinline int pace_give_back(struct pace_block *block, __u32 bucket, __u64 bytes)
{
	__u64 urgency = 0;

	if (!block || !bytes)
		return 0;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		pace_refund(at, urgency, bytes);
		urgency = at->urgency;
		bucket = at->parent;
	}
	return 0;
}

#endif
