/* The records that the iterator over the sockets writes. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_LIVE_H
#define CARRICK_LIVE_H

/* One leg of a splice. */
struct leg_record {
	__u32 index;             /* its index in `sockets` */
	__u32 state;             /* net/tcp_states.h */
	__u32 rtt_us;            /* smoothed; 0: never measured */
	__u32 rtt_variation_us;
	__u32 retransmissions;   /* segments, over the connection's life */
	__u32 congestion_window; /* segments */
	__u32 in_flight_bytes;   /* sent and not acknowledged */
	__u32 unsent_bytes;      /* given to its TCP and not sent */
	__u32 unread_bytes;      /* received and not read, by program or process */
	__u32 send_memory_bytes; /* memory of its send queue, with overhead */
	__u64 backlog_bytes;     /* redirected to it and not yet in its TCP */
};

#endif
