/* What the iterator over the sockets tells the process. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_LIVE_H
#define CARRICK_LIVE_H

/* One leg of a splice, as it stands now. */
struct leg_record {
	__u32 index;             /* its place in `sockets` */
	__u32 state;             /* net/tcp_states.h */
	__u32 rtt_us;            /* smoothed; 0: never measured */
	__u32 rtt_variation_us;
	__u32 retransmissions;   /* segments, since the connection exists */
	__u32 congestion_window; /* segments */
	__u32 in_flight_bytes;   /* sent and not acknowledged */
	__u32 unsent_bytes;      /* given to its TCP and not sent */
	__u32 unread_bytes;      /* received and not taken, by program or process */
	__u32 send_memory_bytes; /* what its send queue takes up, overhead included */
	__u64 backlog_bytes;     /* handed to it and not yet given to its TCP */
};

#endif
