/* Types shared by the socket engine's BPF program and the process. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_SOCKMAP_H
#define CARRICK_SOCKMAP_H

/* One direction of a splice: from one socket to its peer. Each field has one writer; the program's and the process's
 * fields share no cache line. */
struct direction {
	/* Written by the verdict program, under the lock of the sender's socket. */
	__u64 forwarded_bytes; /* handed to the receiver's queue in the kernel */
	__u64 passed_bytes;    /* left to the process */
	__u64 sheltered_bytes; /* redirected to the shelter */
	__u64 mark_bytes;      /* forwarded_bytes up to which pieces_before counts */
	__u32 pieces_before;   /* pieces forwarded before the mark that the receiver may not have taken */
	__u32 pieces_since;    /* pieces forwarded since the mark */
	__u64 run_start;       /* forwarded_bytes when the current run began: nothing came the other way since */
	__u64 run_answered;    /* forwarded_bytes of the other direction at that time */
	__u32 next_seq;        /* sequence number of the next byte from the sender */
	__u32 is_begun;        /* whether next_seq is known */
	__u32 told;            /* the value of wake for which the process was last woken */
	__u32 gap;             /* if not 0: bytes were lost, and the splice is broken */
	__u64 kernel_reserved[7];

	/* Written by the process. */
	__u64 relayed_bytes; /* of passed_bytes, what the process has written to the receiver */
	__u64 receiver_base; /* bytes in the receiver's TCP when the splice began */
	__u64 backlog_max;   /* bytes that may wait for the receiver's TCP */
	__u64 bytes_max;     /* forwarding stops before forwarded_bytes plus passed_bytes would exceed this */
	__u64 run_bytes_max; /* if not 0: longer runs are left to the process */
	__u32 redirecting;   /* 0: everything goes to the process */
	__u32 shelter;       /* if not 0: everything goes to the socket at this index, minus 1 */
	__u32 only_receives; /* not 0: the receiver is in the map `receivers` */
	__u32 wake;          /* if not 0: wake the process at the boundary, or if bytes are lost; a new number each time */
	__u32 is_asleep;     /* not 0: also wake it when something is left to it */
	__u32 process_reserved;
	__u64 pace;          /* a `pace_handle` */
	__u64 look_bytes;    /* if not 0: wake the process, if it waits, when forwarded_bytes reaches this */
	__u64 reserved[6];
};

#endif
