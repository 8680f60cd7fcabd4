/* Pacing: the control block shared by workers, forwarders and BPF programs, and the programs' functions on it. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_PACING_H
#define CARRICK_PACING_H

#define PACE_WORKERS 256
#define PACE_CLASSES 64
#define PACE_BUCKETS 16384

/* Levels of buckets: a splice, a client's network, a class, and the class's parents. */
#define PACE_LEVELS 6

/* Among the children of a bucket, the more urgent go first: degrees of urgency above the lowest. */
#define PACE_URGENCIES 3

/* Each degree of urgency leaves one part in this many of a ceiling to those below it, so that none is starved. */
#define PACE_LEAVE_ONE_IN 64

/* A worker without a heartbeat for this long is dead, and no longer limits anything. */
#define PACE_DEAD_NS 3000000000ULL

/* A worker that has been runnable for this long hangs, and is not waited for. */
#define PACE_HANGS_NS 250000000ULL

/* When spliced traffic waits for the worker. */
enum pace_yield {
	PACE_IMMEDIATE = 0,    /* never */
	PACE_CONSERVATIVE = 1, /* as long as the worker is runnable */
	PACE_CREDIT = 2,       /* likewise, except for as many bytes as the worker has given credit for */
};

/* A worker's state. Written by the worker alone unless noted. */
struct pace_worker {
	__u64 beat_ns;           /* its last heartbeat (CLOCK_MONOTONIC); at least one per second */
	__u64 runnable_since_ns; /* 0: it is blocked */
	__u64 runnable_ns;       /* total time runnable */
	__u64 forwarding_ns;     /* total time spent forwarding spliced traffic */
	__u64 local_requests;    /* served by the worker itself: from the cache, or by a response of its own */
	__u64 local_bytes;
	__u64 spliced_requests;
	__u64 spliced_bytes;     /* by the process */
	__u64 kernel_bytes;      /* spliced by the kernel: written by programs */
	__u64 hits_p99_ns;       /* 99th percentile of how long cache hits waited in the worker; 0: not known */
	__u64 reserved[6];
};

/* Bytes that a class may splice while a worker is runnable (PACE_CREDIT), as running totals. */
struct pace_credit {
	__u64 given; /* written by the worker */
	__u64 taken; /* written by everybody */
};

/* A class of splices. Written by the process unless noted. */
struct pace_class {
	__u64 condition;    /* an `enum pace_yield` */
	__u64 hold_max_ns;  /* after being held for this long, a splice gets a small grant */
	__u64 held;         /* how often a program has held data back; written by programs */
	__u64 granted;      /* bytes that programs have passed; written by programs */
};

/* A token bucket. Taken bytes are paid off over time: it is empty while its debt exceeds its burst. */
struct pace_bucket {
	__u64 rate;        /* bytes per second guaranteed, whatever others take; 0: none */
	__u64 ceiling;     /* limit in bytes per second; 0: none of its own */
	__u64 burst_ns;    /* the burst, as a time */
	__u64 rate_due_ns; /* when the debt at `rate` is paid off; this and the next written by workers and programs */
	__u64 ceiling_due_ns;
	__u64 urgent_due_ns[PACE_URGENCIES]; /* likewise, for bytes more urgent than the index */
	__u64 taken;       /* bytes; written by workers and programs */
	__u64 parent;      /* index of the bucket that it also draws from, plus 1; 0: none */
	__u64 urgency;     /* its urgency at the parent, at most PACE_URGENCIES */
};

struct pace_block {
	__u64 changes; /* grows when classes and buckets are changed; written by the process */
	__u64 reserved;
	struct pace_worker workers[PACE_WORKERS];
	struct pace_credit credits[PACE_WORKERS * PACE_CLASSES];
	struct pace_class classes[PACE_CLASSES];
	struct pace_bucket buckets[PACE_BUCKETS];
};

/* How a splice is paced: the worker in the lowest byte, the class plus 1 in the next, the bucket plus 1 in the upper
 * half. 0: not paced. */
typedef __u64 pace_handle;

#define PACE_SECOND_NS 1000000000ULL

#ifdef __bpf__
#include "../common/bounds.h"

/* The process passes this map to programs that hold pieces back. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pace_block);
} pace SEC(".maps");

static __always_inline struct pace_block *pace_find(pace_handle handle)
{
	__u32 first = 0;

	return handle ? bpf_map_lookup_elem(&pace, &first) : 0;
}

static __always_inline struct pace_worker *pace_worker_of(struct pace_block *block, pace_handle handle)
{
	return &block->workers[handle & (PACE_WORKERS - 1)];
}

static __always_inline struct pace_class *pace_class_of(struct pace_block *block, pace_handle handle)
{
	__u32 class = (__u32)(handle >> 8) & 0xff;

	return IS_WITHIN(class, 1, PACE_CLASSES) ? &block->classes[class - 1] : 0;
}

/* The credit of the handle's class with its worker. */
static __always_inline struct pace_credit *pace_credit_of(struct pace_block *block, pace_handle handle)
{
	__u64 class = (handle >> 8) - 1, at = (handle & (PACE_WORKERS - 1)) * PACE_CLASSES + (class & (PACE_CLASSES - 1));

	/* The compiler turns the addition into `|`, whose bounds Linux 6.1 does not track. */
	asm volatile("" : "+r"(at));
	return &block->credits[at & (PACE_WORKERS * PACE_CLASSES - 1)];
}

/* The bytes a rate has left. */
static __always_inline __u64 pace_left(__u64 rate, __u64 due_ns, __u64 burst_ns, __u64 now)
{
	__u64 owed_ns = due_ns > now ? due_ns - now : 0;

	return owed_ns < burst_ns ? (burst_ns - owed_ns) * rate / PACE_SECOND_NS : 0;
}

/* The part of a ceiling that is open to bytes more urgent than `below`. */
static __always_inline __u64 pace_urgent_rate(__u64 ceiling, __u32 below)
{
	return ceiling - ceiling / PACE_LEAVE_ONE_IN * (below + 1);
}

/* The bytes a bucket's ceiling has left at this urgency (what less urgent traffic took does not count); ~0 without a ceiling. */
GLOBAL_FUNCTION __u64 pace_ceiling_left(struct pace_bucket *at, __u64 urgency, __u64 now)
{
	if (!at || !at->ceiling)
		return ~0ULL;
	if (urgency && urgency <= PACE_URGENCIES)
		return pace_left(pace_urgent_rate(at->ceiling, urgency - 1), at->urgent_due_ns[urgency - 1], at->burst_ns, now);
	return pace_left(at->ceiling, at->ceiling_due_ns, at->burst_ns, now);
}

/* The bytes a bucket's own rate has left; 0 without a rate. */
GLOBAL_FUNCTION __u64 pace_rate_left(struct pace_bucket *at, __u64 now)
{
	return at && at->rate ? pace_left(at->rate, at->rate_due_ns, at->burst_ns, now) : 0;
}

/* The bytes a bucket lets pass: its own rate in any case; beyond that, what the buckets above leave. */
static __noinline __u64 pace_bucket_left(struct pace_block *block, __u32 bucket, __u64 now)
{
	__u64 left = ~0ULL, urgency = 0, own, under;

	if (!block)
		return 0;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		under = pace_ceiling_left(at, urgency, now);
		left = under < left ? under : left;
		own = pace_rate_left(at, now);
		if (own)
			return own < left ? own : left;
		urgency = at->urgency;
		bucket = at->parent;
	}
	return left;
}

/* Adds to a debt. `debt_max_ns`, if not 0, bounds it (apart from the last bytes taken). Whether it was added. */
static __always_inline int pace_pay(__u64 *due_ns, __u64 rate, __u64 bytes, __u64 now, __u64 debt_max_ns)
{
	__u64 was = *(volatile __u64 *)due_ns;

	if (debt_max_ns && was > now + debt_max_ns)
		return 0;
	if (was < now)
		__sync_val_compare_and_swap(due_ns, was, now);
	__sync_fetch_and_add(due_ns, bytes * PACE_SECOND_NS / rate);
	return 1;
}

/* Charges a bucket for bytes that were passed at this urgency. Borrowing is not paid back forever; what `is_own`, for its
 * own rate lets it pass, is not borrowed. Whether its own rate is charged. */
GLOBAL_FUNCTION int pace_charge(struct pace_bucket *at, __u64 urgency, __u64 bytes, __u64 now, int is_own)
{
	int is_charged = 0;

	if (!at)
		return 0;
	if (at->ceiling) {
		pace_pay(&at->ceiling_due_ns, at->ceiling, bytes, now, 0);
		for (int below = 0; below < PACE_URGENCIES && below < urgency; below++)
			pace_pay(&at->urgent_due_ns[below], pace_urgent_rate(at->ceiling, below), bytes, now, 0);
	}
	if (at->rate)
		is_charged = pace_pay(&at->rate_due_ns, at->rate, bytes, now, is_own ? 0 : 2 * at->burst_ns);
	__sync_fetch_and_add(&at->taken, bytes);
	return is_charged;
}

/* Charges bytes that were passed, of which so many were reserved. */
static __noinline int pace_take(struct pace_block *block, pace_handle handle, __u64 bytes, __u64 reserved, __u64 now)
{
	__u32 bucket = handle >> 32;
	struct pace_class *class;
	__u64 urgency = 0;

	if (!block)
		return 0;
	/* Traffic of a dead worker is not limited, and so not charged. */
	if (now > pace_worker_of(block, handle)->beat_ns + PACE_DEAD_NS || bytes <= reserved)
		bucket = 0;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		pace_charge(at, urgency, bytes - reserved, now, 0);
		urgency = at->urgency;
		bucket = at->parent;
	}
	class = pace_class_of(block, handle);
	if (!class)
		return 0;
	__sync_fetch_and_add(&class->granted, bytes);
	__sync_fetch_and_add(&pace_worker_of(block, handle)->kernel_bytes, bytes);
	if (class->condition == PACE_CREDIT && pace_worker_of(block, handle)->runnable_since_ns)
		__sync_fetch_and_add(&pace_credit_of(block, handle)->taken, bytes);
	return 0;
}

/* How many bytes of a splice may pass now; ~0 if unlimited. `reserved`: these are taken already; 0: none. */
static __noinline __u64 pace_left_of(struct pace_block *block, pace_handle handle, __u64 now, __u64 reserved)
{
	struct pace_worker *worker;
	struct pace_class *class;
	__u64 since, credit, left = ~0ULL;

	if (!block)
		return ~0ULL;
	worker = pace_worker_of(block, handle);
	class = pace_class_of(block, handle);
	if (now > worker->beat_ns + PACE_DEAD_NS || !class)
		return ~0ULL;
	if (reserved)
		left = reserved;
	else if (handle >> 32)
		left = pace_bucket_left(block, handle >> 32, now);
	since = *(volatile __u64 *)&worker->runnable_since_ns;
	if (class->condition == PACE_IMMEDIATE || !since || now > since + PACE_HANGS_NS)
		return left;
	if (class->condition == PACE_CONSERVATIVE)
		return 0;
	credit = pace_credit_of(block, handle)->given - pace_credit_of(block, handle)->taken;
	if ((__s64)credit <= 0)
		return 0;
	return credit < left ? credit : left;
}

#endif
#endif
