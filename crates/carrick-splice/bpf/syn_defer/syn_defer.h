/* What the BPF programs that hold SYNs and the process share. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_SYN_DEFER_H
#define CARRICK_SYN_DEFER_H

/* The longest SYN that is held, from the IP header on: with what TCP Fast Open sends in it. */
#define HOLD_PACKET_MAX 1600

/* So many SYNs are remembered; beyond that, those that were not heard of for longest are forgotten. */
#define HOLD_ENTRIES_MAX 65536

/* Listeners whose marks are looked for. */
#define HOLD_MARKS_MAX 64

/* So many read what is held, each from a ring of its own. */
#define HOLD_READERS_MAX 256
#define HOLD_RING_BYTES (1 << 20)

/* Addresses in network order, IPv4 as ::ffff:a.b.c.d; ports likewise. */
struct hold_flow {
	__u32 client[4];
	__u32 server[4];
	__u16 client_port;
	__u16 server_port;
};

enum hold_state {
	HOLD_WAITING = 1,  /* the process has it, and nothing was answered */
	HOLD_RELEASED = 2, /* it passes; so do those that repeat it */
	HOLD_REFUSED = 3,  /* answered; one that repeats it is asked for anew */
};

/* What is remembered of the last SYN of a flow. */
struct hold_entry {
	__u64 since_ns;
	__u32 sequence; /* in the order of the host; another one is another attempt */
	__u32 state;
	__u32 interface; /* by which it came */
	__u32 reserved;
};

/* What the process is told of a SYN, followed by the packet. */
struct hold_told {
	struct hold_flow flow;
	__u32 sequence;
	__u32 mark;
	__u32 interface;
	__u32 packet_bytes;
	__u8 source[6];      /* of the Ethernet header; all 0: the interface has none */
	__u8 destination[6];
};

/* What the process decides (`carrick_hold_decide`), in a packet behind an Ethernet header. */
struct hold_decision {
	struct hold_flow flow;
	__u32 sequence;
	__u32 state; /* the new one; 0: it is to be forgotten */
};

enum hold_answer {
	HOLD_DONE = 1,
	HOLD_TOO_LATE = 2, /* another attempt, or it has passed meanwhile */
};

/* What was done. */
struct hold_counts {
	__u64 held;          /* new ones, which the process was told of */
	__u64 repeated;      /* repetitions that were dropped while one waited */
	__u64 unattended;    /* passed: nobody reads */
	__u64 crowded;       /* passed: the ring is full */
	__u64 not_understood; /* passed: longer than HOLD_PACKET_MAX, a fragment, or IPv6 with extension headers */
};

/* When each reader was last at work, in nanoseconds of CLOCK_MONOTONIC; 0: it is not there. */
struct hold_beats {
	__u64 beat_ns[HOLD_READERS_MAX];
};

#endif
