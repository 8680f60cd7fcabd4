/* Types shared by the BPF programs that defer SYNs and the process. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_SYN_DEFER_H
#define CARRICK_SYN_DEFER_H

/* The longest SYN that is deferred, from the IP header on, with TCP Fast Open data. */
#define SYN_PACKET_MAX 1600

/* SYNs that are remembered; beyond that, the least recently seen are forgotten. */
#define SYN_ENTRIES_MAX 65536

/* The most listeners' marks. */
#define SYN_MARKS_MAX 64

/* The most readers, each with a ring of its own. */
#define SYN_READERS_MAX 256
#define SYN_RING_BYTES (1 << 20)

/* Addresses and ports in network byte order; IPv4 addresses are mapped: ::ffff:a.b.c.d. */
struct syn_flow {
	__u32 client[4];
	__u32 server[4];
	__u16 client_port;
	__u16 server_port;
};

enum syn_state {
	SYN_WAITING = 1,  /* the process has it; not answered yet */
	SYN_RELEASED = 2, /* it passes, and so do retransmissions */
	SYN_REFUSED = 3,  /* refused; a retransmission is reported anew */
};

/* The last SYN of a flow. */
struct syn_entry {
	__u64 since_ns;
	__u32 sequence; /* in host byte order; a different number is another attempt */
	__u32 state;
	__u32 interface; /* the interface it came in on */
	__u32 reserved;
};

/* The report of a SYN to the process, followed by the packet. */
struct syn_report {
	struct syn_flow flow;
	__u32 sequence;
	__u32 mark;
	__u32 interface;
	__u32 packet_bytes;
	__u8 source[6];      /* of the Ethernet header; all 0: there is none */
	__u8 destination[6];
};

/* A decision of the process (`carrick_syn_decide`), behind an Ethernet header. */
struct syn_decision {
	struct syn_flow flow;
	__u32 sequence;
	__u32 state; /* the new state; 0: forget it */
};

enum syn_answer {
	SYN_DONE = 1,
	SYN_TOO_LATE = 2, /* another attempt, or already decided */
};

/* Counters. */
struct syn_counts {
	__u64 deferred;      /* new SYNs that were reported to the process */
	__u64 repeated;      /* retransmissions dropped while one waited */
	__u64 unattended;    /* passed: no reader is alive */
	__u64 crowded;       /* passed: the ring or the table is full */
	__u64 not_understood; /* passed: longer than SYN_PACKET_MAX, a fragment, or IPv6 with extension headers */
};

/* Each reader's last heartbeat, in nanoseconds of CLOCK_MONOTONIC; 0: there is no such reader. */
struct syn_beats {
	__u64 beat_ns[SYN_READERS_MAX];
};

#endif
