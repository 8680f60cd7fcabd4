/* What the process asks of the programs for the legs of a relay. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TCP_TUNING_H
#define CARRICK_TCP_TUNING_H

/* The private option: setsockopt(socket, LEG_LEVEL, LEG_OPTION, &request, sizeof(request)). No protocol has this level. */
#define LEG_LEVEL 0x6361726b
#define LEG_OPTION 1

/* What is asked, and what `value` is then. */
#define LEG_INITIAL_WINDOW 1 /* segments */
#define LEG_RTO_MIN 2        /* microseconds */
#define LEG_DELACK_MAX 3     /* microseconds */
#define LEG_CONGESTION 4     /* nothing; `name` is asked for */
#define LEG_HANDSHAKE 5      /* ticks until a SYN or SYN-ACK is sent again; 0: as ever. `segments` is asked for, too */

#define LEG_NAME_BYTES 16

/* So many listeners are known at a time; the one that lets nobody in for the longest is forgotten first. */
#define LEG_LISTENERS 1024

struct leg_request {
	__u64 key[2]; /* the process' secret */
	__u32 ask;
	__u32 value;
	__u32 segments; /* that the first receive window has; 0: as ever */
	__u32 unused;
	__u64 cookie; /* of a listener, by SO_COOKIE; 0: the handshake is the socket's own */
	char name[LEG_NAME_BYTES]; /* with zeros behind it */
};

#endif
