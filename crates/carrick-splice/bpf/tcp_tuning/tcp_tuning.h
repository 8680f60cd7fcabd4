/* Requests of the process to the TCP tuning programs. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TCP_TUNING_H
#define CARRICK_TCP_TUNING_H

/* The private option: setsockopt(socket, LEG_LEVEL, LEG_OPTION, &request, sizeof(request)). No protocol has this level. */
#define LEG_LEVEL 0x6361726b
#define LEG_OPTION 1

/* Kinds of requests, and the unit of `value`. */
#define LEG_INITIAL_WINDOW 1 /* segments */
#define LEG_RTO_MIN 2        /* microseconds */
#define LEG_DELACK_MAX 3     /* microseconds */
#define LEG_CONGESTION 4     /* none; uses `name` */
#define LEG_HANDSHAKE 5      /* ticks until a SYN or SYN-ACK is retransmitted; 0: the default. Also uses `segments` */

#define LEG_NAME_BYTES 16

/* The most listeners; the least recently used is forgotten first. */
#define LEG_LISTENERS 1024

struct tcp_request {
	__u64 key[2]; /* the process's secret */
	__u32 ask;
	__u32 value;
	__u32 segments; /* the first receive window in segments; 0: the default */
	__u32 unused;
	__u64 cookie; /* a listener's SO_COOKIE; 0: the socket's own handshake */
	char name[LEG_NAME_BYTES]; /* zero-padded */
};

#endif
