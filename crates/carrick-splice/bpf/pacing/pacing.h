/* Pacing: the control block that workers, forwarders and BPF programs share, and what programs make of it. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_PACING_H
#define CARRICK_PACING_H

#define PACE_WORKERS 256
#define PACE_CLASSES 64
#define PACE_BUCKETS 16384

/* A bucket, those of its parents included: a splice, a client's network, a class, and that one's parents. */
#define PACE_LEVELS 6

/* Of those that share what a bucket lets pass, some go before others: so many degrees of urgency there are above the least. */
#define PACE_URGENCIES 3

/* The urgent leave a part of a ceiling to the others, one in so many, so that nobody stands still. */
#define PACE_LEAVE_ONE_IN 64

/* If a worker has shown no sign of life for so long, nothing that it was to decide holds any more. */
#define PACE_DEAD_NS 3000000000ULL

/* If it has been runnable for so long, it hangs, and nobody waits for it. */
#define PACE_HANGS_NS 250000000ULL

/* When what is spliced waits for the worker. */
enum pace_yield {
	PACE_IMMEDIATE = 0,    /* never */
	PACE_CONSERVATIVE = 1, /* as long as the worker is runnable */
	PACE_CREDIT = 2,       /* likewise, but for as many bytes as the worker has given credit for */
};

/* What a worker does. Written by the worker alone, but for what stands otherwise. */
struct pace_worker {
	__u64 beat_ns;           /* its last sign of life, by CLOCK_MONOTONIC; at least one a second */
	__u64 runnable_since_ns; /* 0: it is blocked */
	__u64 runnable_ns;       /* how long it was runnable so far */
	__u64 forwarding_ns;     /* how long it has forwarded what is spliced */
	__u64 local_requests;    /* served by the worker itself: from the cache, by an answer of its own */
	__u64 local_bytes;
	__u64 spliced_requests;
	__u64 spliced_bytes;     /* by the process */
	__u64 kernel_bytes;      /* spliced by the kernel: written by programs */
	__u64 hits_p99_ns;       /* 99 of 100 cache hits waited no longer than this in the worker; 0: not known */
	__u64 reserved[6];
};

/* What a class may splice while a worker is runnable (PACE_CREDIT), in bytes, of all the credit that there ever was. */
struct pace_credit {
	__u64 given; /* written by the worker */
	__u64 taken; /* written by everybody */
};

/* Splices that are treated alike. Written by the process, but for what stands otherwise. */
struct pace_class {
	__u64 condition;    /* an `enum pace_yield` */
	__u64 hold_max_ns;  /* what was held back for so long goes on, if only by a little */
	__u64 held;         /* how often a program has held something back; written by programs */
	__u64 granted;      /* bytes that programs have let pass; written by programs */
};

/* Bytes over time. What is taken is paid for as time goes by: a bucket is empty as long as it owes for more than its burst. */
struct pace_bucket {
	__u64 rate;        /* bytes per second that are its own, whatever others take; 0: none */
	__u64 ceiling;     /* bytes per second that it never exceeds; 0: it has no bound of its own */
	__u64 burst_ns;    /* what may be taken at once, as a time */
	__u64 rate_due_ns; /* until when what was taken at `rate` is paid for; written by everybody, as the next one */
	__u64 ceiling_due_ns;
	__u64 urgent_due_ns[PACE_URGENCIES]; /* the same for those bytes alone that are more urgent than so */
	__u64 taken;       /* bytes; written by everybody */
	__u64 parent;      /* 1 more than whose bytes it takes, too; 0: nobody's */
	__u64 urgency;     /* how urgent its bytes are to the parent, at most PACE_URGENCIES */
};

struct pace_block {
	__u64 changes; /* grows when classes and buckets are changed; written by the process */
	__u64 reserved;
	struct pace_worker workers[PACE_WORKERS];
	struct pace_credit credits[PACE_WORKERS * PACE_CLASSES];
	struct pace_class classes[PACE_CLASSES];
	struct pace_bucket buckets[PACE_BUCKETS];
};

/* How a splice is paced: the worker in the lowest byte, 1 more than the class in the next one, 1 more than the bucket in the upper
 * half. 0: it is not paced. */
typedef __u64 pace_handle;

#define PACE_SECOND_NS 1000000000ULL

#ifdef __bpf__
#include "../common/bounds.h"

/* Programs that hold pieces back have this map from the process. */
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

	/* The compiler adds by `|`, of which Linux 6.1 does not know how large it gets. */
	asm volatile("" : "+r"(at));
	return &block->credits[at & (PACE_WORKERS * PACE_CLASSES - 1)];
}

/* What a rate has left, in bytes. */
static __always_inline __u64 pace_left(__u64 rate, __u64 due_ns, __u64 burst_ns, __u64 now)
{
	__u64 owed_ns = due_ns > now ? due_ns - now : 0;

	return owed_ns < burst_ns ? (burst_ns - owed_ns) * rate / PACE_SECOND_NS : 0;
}

/* What the urgent among those that share a ceiling have of it. */
static __always_inline __u64 pace_urgent_rate(__u64 ceiling)
{
	return ceiling - ceiling / PACE_LEAVE_ONE_IN;
}

/* What a ceiling has left for bytes that are so urgent: those that are less so do not count. */
static __always_inline __u64 pace_ceiling_left(struct pace_bucket *at, __u64 urgency, __u64 now)
{
	if (urgency && urgency <= PACE_URGENCIES)
		return pace_left(pace_urgent_rate(at->ceiling), at->urgent_due_ns[urgency - 1], at->burst_ns, now);
	return pace_left(at->ceiling, at->ceiling_due_ns, at->burst_ns, now);
}

/* How much a bucket lets pass: its own rate in any case, beyond that what those above it leave. */
static __noinline __u64 pace_bucket_left(struct pace_block *block, __u32 bucket, __u64 now)
{
	__u64 left = ~0ULL, urgency = 0, own;

	if (!block)
		return 0;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		if (at->ceiling) {
			__u64 under = pace_ceiling_left(at, urgency, now);

			left = under < left ? under : left;
		}
		own = at->rate ? pace_left(at->rate, at->rate_due_ns, at->burst_ns, now) : 0;
		if (own)
			return own < left ? own : left;
		urgency = at->urgency;
		bucket = at->parent;
	}
	return left;
}

/* With `debt_max_ns`, nothing is owed for longer than that (and what was taken last): what was borrowed is not given back for ever. */
static __always_inline void pace_pay(__u64 *due_ns, __u64 rate, __u64 bytes, __u64 now, __u64 debt_max_ns)
{
	__u64 was = *(volatile __u64 *)due_ns;

	if (debt_max_ns && was > now + debt_max_ns)
		return;
	if (was < now)
		__sync_val_compare_and_swap(due_ns, was, now);
	__sync_fetch_and_add(due_ns, bytes * PACE_SECOND_NS / rate);
}

/* Takes note of bytes that were let pass. */
static __noinline int pace_take(struct pace_block *block, pace_handle handle, __u64 bytes, __u64 now)
{
	__u32 bucket = handle >> 32;
	struct pace_class *class;
	__u64 urgency = 0;

	if (!block)
		return 0;
	/* What nobody bounds is not paid for later. */
	if (now > pace_worker_of(block, handle)->beat_ns + PACE_DEAD_NS)
		bucket = 0;
	for (int level = 0; level < PACE_LEVELS && bucket && bucket <= PACE_BUCKETS; level++) {
		struct pace_bucket *at = &block->buckets[(bucket - 1) & (PACE_BUCKETS - 1)];

		if (at->ceiling) {
			pace_pay(&at->ceiling_due_ns, at->ceiling, bytes, now, 0);
			for (int below = 0; below < PACE_URGENCIES && below < urgency; below++)
				pace_pay(&at->urgent_due_ns[below], pace_urgent_rate(at->ceiling), bytes, now, 0);
		}
		if (at->rate)
			pace_pay(&at->rate_due_ns, at->rate, bytes, now, 2 * at->burst_ns);
		__sync_fetch_and_add(&at->taken, bytes);
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

/* How many bytes of a splice may go on now: ~0 if there is no bound. */
static __noinline __u64 pace_left_of(struct pace_block *block, pace_handle handle, __u64 now)
{
	struct pace_worker *worker;
	struct pace_class *class;
	__u64 since, credit, left;

	if (!block)
		return ~0ULL;
	worker = pace_worker_of(block, handle);
	class = pace_class_of(block, handle);
	if (now > worker->beat_ns + PACE_DEAD_NS || !class)
		return ~0ULL;
	left = handle >> 32 ? pace_bucket_left(block, handle >> 32, now) : ~0ULL;
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
