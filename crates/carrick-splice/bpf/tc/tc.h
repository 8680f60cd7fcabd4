/* Types shared by the packet engine's BPF programs and the process. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_H
#define CARRICK_TC_H

#include "../http/tables.h"

/* A connection from this host's side, in network byte order; IPv4 addresses are mapped: ::ffff:a.b.c.d. */
struct flow {
	__u32 own[4];
	__u32 peer[4];
	__u16 own_port;
	__u16 peer_port;
};

/* A connection's slot: leg i of splice n has number 2n + i. */
struct place {
	__u32 number;
};

/* Where a splice's packets go. */
enum packet_state {
	PACKET_FREE = 0,    /* the slot is free */
	PACKET_PROCESS = 1, /* to the local sockets */
	PACKET_SPLICED = 2, /* to the other peer */
	PACKET_ENDED = 3,   /* to the other peer, for retransmissions only: both FINs are acknowledged */
	PACKET_RESET = 4,   /* likewise, after a peer's reset */
	PACKET_RESPONSES = 5, /* leg 1's packets to the other peer; leg 0's to the local socket */
	/* To the local sockets, but the server's window is limited to what the client takes. If the rest of the
	 * response that is to be forwarded is known, the first packet of leg 1 that finds everything before it
	 * received moves the splice to RESPONSES. */
	PACKET_DUE = 6,
};

/* A pause with nothing in flight is not network time: at most this much of it counts as active. */
#define PACKET_PAUSE_NS 1000000000ULL

/* Connection tracking is shown a forwarded packet of each connection every 2^33 nanoseconds (9 s). */
#define PACKET_SHOW_SHIFT 33

/* Network interfaces the programs can be on: the size of `interfaces`. */
#define PACKET_INTERFACES_MAX 4096

/* Bytes of a response that are kept for the process. */
#define PACKET_HEAD_BYTES 1024

/* A later packet's payload is added while fewer bytes than this are kept, so it always has room. */
#define PACKET_PIECES_BYTES 512

/* The last bytes forwarded are kept, too. */
#define PACKET_TAIL_BYTES 5

/* Commands to the program `carrick_command`. */
enum packet_command {
	PACKET_ARM = 1,    /* splice, if both connections are at rest and have the same TCP options */
	/* Return the packets to the local sockets, if these have nothing to receive or to send. From RESPONSES: if
	 * the process knows of every forwarded request, and the server has acknowledged them. */
	PACKET_DISARM = 2,
	PACKET_MAY_END = 3, /* the local socket of leg `argument` may send its FIN */
	PACKET_LOOK = 4,    /* report whether a local socket of a connection that is still this splice's exists, in any state, and has unacknowledged data */
	PACKET_ARM_RESPONSES = 5, /* splice what leg 1 sends, and keep its state in record `argument` */
	PACKET_ARM_BODY = 7, /* likewise, in the middle of a response, as soon as possible (PACKET_DUE); also from DUE or RESPONSES */
	PACKET_GO_BY = 6, /* forward to the peer of leg `side` by interface `argument` from now on */
	PACKET_FORGET = 8, /* end the splice: remove its connections and free its slot */
	PACKET_TAKE_CLIENT = 9, /* DISARM, but the server's connection is given up, whatever it has acknowledged */
};

/* Results of a command. */
enum packet_answer {
	PACKET_DONE = 0,
	PACKET_NO_PLACE = 1,       /* no such splice, or the wrong state */
	PACKET_NO_SOCKET = 2,      /* a local socket is not established */
	/* a local socket is in its handshake, or has something to receive or to send; or a forwarded request has not
	 * arrived */
	PACKET_BUSY = 3,
	/* a connection's packets have not passed the hooks in both directions (address translation? another
	 * interface?) */
	PACKET_UNSEEN = 4,
	PACKET_TIMESTAMPS = 5,     /* only one connection has timestamps */
	PACKET_SACK = 6,           /* likewise, SACK */
	PACKET_ECN = 7,            /* likewise, ECN */
	PACKET_SEGMENTS = 8,       /* one side's segments may be too long for the other */
	PACKET_SIGNED = 9,         /* a connection is signed (TCP MD5, TCP-AO) */
	PACKET_ENDED_BEFORE = 10,  /* the splice has ended */
	PACKET_CONTINUED = 11,     /* done, and a connection keeps the offsets of an earlier splice (`carrick_place` only) */
	PACKET_NOT_OURS = 12,      /* a connection is not the process's, or the programs are not on an interface */
	PACKET_BEHIND = 13,        /* the kernel has forwarded more requests than the process knows of */
	/* packets of a connection have IP options, IPv6 extension headers, or TCP options that were not negotiated; or come in
	 * fragments */
	PACKET_OPTIONS = 14,
};

/* The argument of the program `carrick_place`. */
struct packet_placing {
	__u32 number;
	struct flow flows[2];
};

/* One of the two connections. "On the wire" means the numbers that its peer sees; the local socket's differ by an
 * offset. */
struct packet_leg {
	struct flow flow;
	__u32 ifindex;        /* the interface its packets leave by; 0: not seen yet, or the connection was forgotten */
	__u32 receive_offset; /* the peer's sequence numbers on the wire, minus those the local socket sees */
	__u32 send_offset;    /* the local socket's sequence numbers on the wire, minus its own */
	__u32 ts_offset;      /* likewise, the local socket's timestamps */
	__u32 last_tsval;     /* the latest timestamp sent to the peer */
	__u32 local_end;      /* end of what the local socket has sent, on the wire */
	__u32 local_acked;    /* how far the peer has acknowledged it */
	__u32 sent_end;       /* with is_ahead: end of what was sent to the peer, by either sender */
	__u32 peer_next;      /* with is_ahead: the next number the peer expects, as far as known */
	__u32 local_tsval;    /* the latest timestamp the local socket has sent, on the wire */
	__u32 received;       /* end of what the local socket is known to have received */
	__u32 peer_tsval;     /* RESPONSES: the peer's latest timestamp */
	__u32 told_end;       /* DUE, leg 1: right edge of the window last advertised to the peer */
	__u32 told_tsval;     /* with is_told_less: the timestamp of the first packet that advertised told_end */
	__u32 passed_end;     /* PROCESS: end of what was delivered, or is on its way, to the local socket */
	__u32 next_hop;       /* of the local socket's route (IPv4); 0: it has none that can be used */
	__u32 hop_generation; /* of the routes, when that was found */
	__u32 hop_ifindex;    /* likewise, the interface; 0: it was not looked for yet */
	__u32 shown_at;       /* when connection tracking was last shown a forwarded packet, in units of PACKET_SHOW_SHIFT */
	__u16 local_window;   /* the local socket's latest window, unscaled as in the header */
	__u8 is_clamped; /* DUE, leg 1: the local socket's latest window was reduced */
	__u8 is_told_less; /* DUE, leg 1: told_end is before an earlier right edge, which the peer may use until it has seen the new one */
	__u8 may_ask; /* RESPONSES: the local socket has received a reset with an unexpected number, and may send a challenge ACK */
	__u8 is_ipv6;
	__u8 was_received; /* a packet from its peer was seen at ingress */
	__u8 has_tsval;    /* last_tsval is valid */
	__u8 may_end;      /* the local socket may send its FIN while spliced */
	__u8 peer_shift;   /* shift of the peer's windows */
	__u8 own_shift;    /* shift of the windows sent to the peer */
	/* it is back with its local socket, but its peer may have received more from the other peer than the local
	 * socket has sent since */
	__u8 is_ahead;
	__u8 had_end;      /* with is_ahead: the last number sent to the peer is a FIN */
	__u8 is_varied;    /* the local socket's next copy of a forwarded packet has a window one lower */
	__u8 is_odd;       /* a packet had options that the other peer's TCP might read differently from the local socket */
	__u8 is_unforwardable; /* a packet was a fragment, or had IPv6 extension headers */
	__u8 has_reset;    /* its peer has sent a reset */
};

/* How far the sender of a way may go on. Numbers are the sender's, on the wire. */
struct packet_pace {
	__u64 handle;        /* as in pacing/pacing.h; 0: not paced */
	__u64 held_since_ns; /* since when its window could be opened further; 0: it cannot */
	__u32 told_end;      /* right edge of the window advertised to it */
	__u32 unpaid;        /* bytes of that window not yet charged: advertised before pacing began */
	__u32 segment_bytes; /* its maximum segment size */
	__u8 is_held;        /* it is queued in `held` */
	__u8 is_due;         /* told_end is not advertised yet: the next packet does so */
	__u16 reserved;
};

/* One direction: from leg i to leg 1 - i. Numbers are the sender's, on the wire. */
struct packet_way {
	__u64 bytes;        /* acknowledged by the receiver while spliced */
	__u64 packets;      /* forwarded */
	__u32 delta;        /* receiver's sequence numbers minus the sender's */
	__u32 ts_delta;     /* likewise, timestamps */
	__u32 end;          /* end of what was forwarded, or sent by the local socket */
	__u32 start;        /* end of what the process has sent, or of what is counted in `bytes` */
	__u32 acked;        /* how far the receiver has acknowledged */
	__u32 window_end;   /* how far the sender may send */
	__u32 offered_end;  /* right edge of the receiver's latest window */
	__u32 window_max;   /* the largest window advertised to the sender, in bytes */
	__u32 end_of_stream; /* number behind the FIN, if has_end */
	__u32 has_end;
	__u32 has_moved;    /* the receiver has acknowledged something sent this way */
	__u32 again;        /* of `packets`, those with data sent before: lost on either leg, or late */
	struct packet_pace pace;
};

struct packet_splice {
	struct bpf_spin_lock lock;
	__u32 state;
	/* RESPONSES: */
	__u32 record;         /* of `responses` */
	__u32 response_start; /* where the latest response begins, in leg 1's numbers on the wire */
	/* likewise, how much the server's local socket had received when the splice was armed; kept within 1 GiB of
	 * the present */
	__u32 armed_at;
	__u32 table;          /* index of the route table for classifying requests, plus 1; 0: the process takes all requests */
	__u32 generation;     /* of the table */
	__u32 upstream;       /* the upstream of leg 1 */
	__u32 choices;        /* of `upstream_choices`, when it was armed: once that differs, the process chooses a server again */
	__u32 classified_start; /* the latest forwarded request, in leg 0's numbers on the wire */
	__u32 classified_end;
	__u32 classified_delta; /* leg 1's numbers minus leg 0's, where that request begins */
	__u32 left_out_at; /* offset in that request of the line that the server does not get; 0: it gets all */
	/* requests that may still be forwarded, and until when (CLOCK_MONOTONIC), before the process chooses a server again */
	__u32 requests_left;
	__u64 requests_until_ns;
	/* where the latest request begins, in leg 1's numbers on the wire; a packet that acknowledges none of it is
	 * no response to it */
	__u32 request_start;
	__u32 asked;          /* number of the process's latest request */
	__u32 is_measured;    /* DUE: the length of the current response is known */
	__u64 left_bytes;     /* bytes of the server's that may still be forwarded; what follows was not requested */
	/* time spliced until noted_bytes were acknowledged; a pause with nothing in flight counts for at most
	 * PACKET_PAUSE_NS */
	__u64 active_ns;
	__u64 pending_ns;  /* likewise, from then to the latest packet; part of active_ns if `bytes` of both ways have grown since */
	__u64 noted_bytes;
	__u64 noted_ns;    /* when the latest packet came */
	__u64 seen_ns;  /* when a packet was last forwarded, or the splice was armed (CLOCK_MONOTONIC) */
	__u64 refused;  /* packets not forwarded: outside the window, forged, or of another kind */
	struct packet_leg legs[2];
	struct packet_way ways[2];
};

/* In `told_end`: the response to the last reported request is the latest one. As the end of a response: unknown. */
#define PACKET_LATEST (~0ULL)

/* Why the server gets no more requests. */
#define RESPONSE_ENDED 1   /* it has sent its FIN */
#define RESPONSE_SURPLUS 2 /* it has sent data that was not requested */
#define RESPONSE_ALL 4     /* the client has acknowledged everything before that, or cannot receive it */

/* Whose packets cannot be forwarded. */
#define STUCK_CLIENT 1
#define STUCK_SERVER 2

/* State of forwarded responses that the process reads without a command. Counts only grow, through all splices that
 * use the record in turn. */
struct packet_response {
	__u64 sent_bytes;  /* forwarded */
	__u64 acked_bytes; /* acknowledged by the client */
	__u64 head_at;     /* sent_bytes at the beginning of the latest response */
	__u64 tail_at;     /* sent_bytes when `tail` was kept */
	__u64 acked_ns;    /* when the client last acknowledged something (CLOCK_MONOTONIC) */
	__u32 head_bytes;  /* valid bytes of `head` */
	__u32 has_end;     /* RESPONSE_ENDED and so on */
	__u64 passed_bytes;  /* bytes of requests that were left to the process */
	__u64 settled_bytes; /* how many of these it has passed on; written by the process */
	__u64 passed_end;    /* sent_bytes at the end of the response to the process's latest request */
	__u32 passed_status; /* that response's status; 0: not known */
	__u32 told_status;   /* status of the response that ends at `told_end` */
	__u32 classified_before; /* requests forwarded before the process's latest one */
	__u32 has_begun;     /* forwarding of the server's data has begun (PACKET_ARM_BODY) */
	__u64 whole_end;   /* sent_bytes at the known end of a response; if equal to sent_bytes, the latest response is whole */
	__u64 told_as;       /* the name under which requests are reported; written by the process */
	__u64 told_end;      /* sent_bytes at the end of the response to the last reported request, or PACKET_LATEST */
	__u32 classified;    /* forwarded requests */
	__u32 method;        /* method of the latest of them, an `enum request_method` */
	__u32 is_back;       /* the server has sent more than the rest of the response, so the packets go to the local sockets again */
	__u32 last_at;       /* offset in `head` of the last head; those before it are interim (1xx) */
	__u32 is_adrift;   /* a request followed a response of unknown end, so the starts of responses are unknown */
	__u32 interim_bytes; /* bytes at the beginning of `head` that are interim heads (1xx) only */
	__u32 asked_method;  /* method of the process's latest request, an `enum request_method`; written by the process */
	__u32 asked;         /* the process's requests, counted before they are sent; written by the process */
	__u32 early_from;    /* the part of `head` that arrived before what precedes it; none if `early_end` is 0 */
	__u32 early_end;
	__u32 is_stuck;      /* a packet came that is to be forwarded, and cannot be: whose (STUCK_CLIENT and so on) */
	struct request_fields fields; /* what forwarded requests get; written by the process before arming */
	__u8 tail[8];      /* the last five bytes */
	__u8 head[PACKET_HEAD_BYTES] __attribute__((aligned(8))); /* the beginning of the latest response */
};

/* The longest request that the kernel forwards. */
#define PACKET_REQUEST_BYTES 1460
#define PACKET_REQUEST_WORDS 184

/* The latest request the kernel forwarded: a retransmission must carry exactly these bytes. */
struct packet_request {
	__u64 words[PACKET_REQUEST_WORDS];
};

/* When these programs' splices were last active (CLOCK_MONOTONIC). Pinned as `pulse`. The layout never changes, so
 * that every version of carrick can read it. */
struct packet_pulse {
	__u64 forwarded_ns; /* a packet was last forwarded, to the second */
	__u64 attended_ns;  /* a process last attended to them; 0: a process attends as long as the programs are loaded */
};

#endif
