/* What the packet engine's BPF programs and the process share. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_H
#define CARRICK_TC_H

/* A connection as this host sees it, in network order; IPv4 addresses as ::ffff:a.b.c.d. */
struct flow {
	__u32 own[4];
	__u32 peer[4];
	__u16 own_port;
	__u16 peer_port;
};

/* Where a connection belongs: splice n has its connections at 2n and 2n + 1. */
struct place {
	__u32 number;
};

/* Who has the packets of a splice. */
enum packet_state {
	PACKET_FREE = 0,    /* nobody: the place is not taken */
	PACKET_PROCESS = 1, /* the local sockets */
	PACKET_SPLICED = 2, /* the other peer */
	PACKET_ENDED = 3,   /* the other peer, for what is sent again: both ends of stream are acknowledged */
	PACKET_RESET = 4,   /* likewise: a peer has reset its connection */
	PACKET_RESPONSES = 5, /* what leg 1 sends, the other peer; what leg 0 sends, the local socket */
	/* The local sockets, but the server may send no more than the client takes; and if it is known which rest of a response is to be
	 * forwarded, until a packet of leg 1 finds all before it received: from that on, RESPONSES. */
	PACKET_DUE = 6,
};

/* In a pause in which nothing is under way, whoever waits does not wait for the network: no more than this of it counts as active. */
#define PACKET_PAUSE_NS 1000000000ULL

/* More network interfaces than these carry nothing by other ways than at the start. */
#define PACKET_INTERFACES_MAX 4096

/* How much of a response is kept for the process. */
#define PACKET_HEAD_BYTES 1024

/* What follows in another packet is kept behind that, if it is shorter than this: as much as there is room for in any case. */
#define PACKET_PIECES_BYTES 512

/* The last bytes of what was forwarded. */
#define PACKET_TAIL_BYTES 5

/* What the process asks of the program `command`. */
enum packet_command {
	PACKET_ARM = 1,    /* splice, if both connections are at rest and alike */
	/* Give the packets back to the local sockets, if those have nothing to receive or to send; of responses, if no more requests were
	 * forwarded than the process knows of, and the server has acknowledged them. */
	PACKET_DISARM = 2,
	PACKET_MAY_END = 3, /* the local socket of leg `argument` may send its end of stream */
	PACKET_LOOK = 4,    /* is a local socket there yet, in whatever state; and does it owe its peer anything? */
	PACKET_ARM_RESPONSES = 5, /* splice what leg 1 sends, and note it in record `argument` */
	PACKET_ARM_BODY = 7, /* likewise, but in the midst of a response, as soon as that can be: PACKET_DUE; also from that state, or RESPONSES */
	PACKET_GO_BY = 6, /* what is forwarded to the peer of leg `side` goes by interface `argument` from now on */
	PACKET_FORGET = 8, /* the splice is over: its connections are let go, and its place is free */
};

/* Why it was not done. */
enum packet_answer {
	PACKET_DONE = 0,
	PACKET_NO_PLACE = 1,       /* no such splice, or not in the state for it */
	PACKET_NO_SOCKET = 2,      /* a local socket is not established */
	PACKET_BUSY = 3,           /* a local socket is being opened, or has something to receive or to send; or a forwarded request has not arrived */
	PACKET_UNSEEN = 4,         /* no packet of a connection has passed the hooks both ways (address translation? another interface?) */
	PACKET_TIMESTAMPS = 5,     /* one connection has timestamps, the other has not */
	PACKET_SACK = 6,           /* likewise, selective acknowledgements */
	PACKET_ECN = 7,            /* likewise, ECN */
	PACKET_SEGMENTS = 8,       /* segments of one side may be too long for the other */
	PACKET_SIGNED = 9,         /* a connection is signed (TCP MD5, TCP-AO) */
	PACKET_ENDED_BEFORE = 10,  /* it has ended */
	PACKET_CONTINUED = 11,     /* it is done, and a connection goes on with the numbers of an earlier splice (`carrick_place` only) */
	PACKET_NOT_OURS = 12,      /* a connection is not the process's, or an interface is not one of the programs' */
	PACKET_BEHIND = 13,        /* more requests were forwarded than the process knows of */
	PACKET_OPTIONS = 14,       /* a connection's packets have IP options, or TCP options that were not agreed on */
};

/* What the process asks of the program `carrick_place`. */
struct packet_placing {
	__u32 number;
	struct flow flows[2];
};

/* One of the two connections. "On the wire" are the numbers that its peer sees; the local socket's differ by an offset. */
struct packet_leg {
	struct flow flow;
	__u32 ifindex;        /* the interface by which its packets leave; 0 until one was seen */
	__u32 receive_offset; /* on the wire, the peer's sequence numbers are so much larger than for the local socket */
	__u32 send_offset;    /* likewise, the local socket's */
	__u32 ts_offset;      /* likewise, the local socket's timestamps */
	__u32 last_tsval;     /* the latest timestamp that the peer was sent */
	__u32 local_end;      /* sequence number behind what the local socket has sent, on the wire */
	__u32 local_acked;    /* what of that the peer has acknowledged */
	__u32 sent_end;       /* if is_ahead: behind what the peer was sent by whomever */
	__u32 peer_next;      /* likewise: what it expects next, as far as is known; at first, sent_end */
	__u32 local_tsval;    /* the latest timestamp that the local socket has sent, on the wire */
	__u32 received;       /* behind what the local socket has received, as far as was seen */
	__u32 peer_tsval;     /* RESPONSES: the latest timestamp that the peer has sent */
	__u32 told_end;       /* DUE, leg 1: as far as the peer may send by what it was told last */
	__u32 told_tsval;     /* likewise, if is_told_less: the timestamp with which it was told so first */
	__u32 passed_end;     /* PROCESS: behind what the local socket was given, with all that may be under way to it */
	__u16 local_window;   /* the window that the local socket has told its peer last, as it stands in the header */
	__u8 is_clamped; /* DUE, leg 1: what the local socket has allowed its peer last was made less */
	__u8 is_told_less; /* likewise: told_end is before what the peer was allowed before, which it may use until it has heard that */
	__u8 may_ask; /* RESPONSES: the local socket has got a reset with a number that it did not expect, and asks whether it is true */
	__u8 is_ipv6;
	__u8 was_received; /* a packet of it came in at a hook */
	__u8 has_tsval;    /* whether last_tsval is one */
	__u8 may_end;      /* the local socket may send its end of stream while spliced */
	__u8 peer_shift;   /* scale of the windows that the peer sends */
	__u8 own_shift;    /* scale of the windows that it is sent */
	__u8 is_ahead;     /* it has come back, and its peer may have got more from the other peer than the local socket has sent since */
	__u8 had_end;      /* if is_ahead: the last that it was sent is its end of stream */
	__u8 is_odd;       /* a packet of it had options that the server's TCP might understand otherwise than the local socket */
};

/* How fast the sender of a way may go on. Numbers are its own, on the wire. */
struct packet_pace {
	__u64 handle;        /* as in pacing/pacing.h; 0: it is not paced */
	__u64 held_since_ns; /* since when it could be told of more than it was; 0: it cannot */
	__u32 told_end;      /* as far as it may send by what it was told */
	__u32 unpaid;        /* bytes of that for which nothing was taken yet: it had been told so before */
	__u32 segment_bytes; /* its longest segments */
	__u8 is_held;        /* it waits in `held` */
	__u8 is_due;         /* told_end has not been told yet: the next packet does */
	__u16 reserved;
};

/* One direction: from leg i to leg 1 - i. Numbers are the sender's, on the wire. */
struct packet_way {
	__u64 bytes;        /* acknowledged by the receiver while spliced */
	__u64 packets;      /* forwarded */
	__u32 delta;        /* the receiver's numbers are so much larger */
	__u32 ts_delta;     /* likewise, timestamps */
	__u32 end;          /* behind the last byte that was forwarded, or sent by the local socket */
	__u32 start;        /* behind the last byte that the process has sent, or that was counted in `bytes` */
	__u32 acked;        /* what the receiver has acknowledged */
	__u32 window_end;   /* as far as the sender may send */
	__u32 offered_end;  /* as far as the receiver takes, by the latest that it has said */
	__u32 window_max;   /* the largest window that the receiver has offered, in bytes */
	__u32 end_of_stream; /* behind the FIN, if has_end */
	__u32 has_end;
	__u32 has_moved;    /* the receiver has acknowledged something of it */
	__u32 again;        /* of `packets`, those whose data had been sent before: lost on one of both legs, or late */
	struct packet_pace pace;
};

struct packet_splice {
	struct bpf_spin_lock lock;
	__u32 state;
	/* RESPONSES: */
	__u32 record;         /* of `responses` */
	__u32 response_start; /* where the latest response begins: leg 1's number, on the wire */
	__u32 armed_at;       /* likewise, what the server's local socket had received when the kernel got the connections; never a gigabyte back */
	__u32 table;          /* 1 more than the table of routes by which requests are judged; 0: all are the process's */
	__u32 generation;     /* of the table */
	__u32 upstream;       /* whose server leg 1 leads to */
	__u32 judged_start;   /* requests that were forwarded last: leg 0's numbers, on the wire */
	__u32 judged_end;
	__u32 judged_delta;   /* leg 1's are so much larger */
	__u32 request_start;  /* where the latest request begins: leg 1's number, on the wire. What acknowledges nothing of it, does not answer it */
	__u32 asked;          /* the latest request of the process, as it counts them */
	__u32 is_measured;    /* DUE: it is known how long the response is that is under way */
	__u64 left_bytes;     /* so much more of the server may be forwarded: what comes behind belongs to nobody */
	__u64 active_ns;   /* while spliced, until noted_bytes were acknowledged; of pauses with nothing under way, PACKET_PAUSE_NS each */
	__u64 pending_ns;  /* likewise, from then to the latest packet: if `bytes` of both ways are more by now, it belongs to active_ns */
	__u64 noted_bytes;
	__u64 noted_ns;    /* when the latest packet came */
	__u64 seen_ns;  /* when a packet was forwarded last, or it was spliced, by CLOCK_MONOTONIC */
	__u64 refused;  /* packets that were not forwarded: outside of the window, forged, or of a foreign kind */
	struct packet_leg legs[2];
	struct packet_way ways[2];
};

/* The response to the request that was told of last is the latest one; or, of an end, that it is not known yet. */
#define PACKET_LATEST (~0ULL)

/* Why nothing more is to be asked of a server. */
#define RESPONSE_ENDED 1   /* its end of stream has been seen */
#define RESPONSE_SURPLUS 2 /* it has sent what nobody has asked for */
#define RESPONSE_ALL 4     /* the client has acknowledged all before that, or cannot get it */

/* What the process knows of forwarded responses without asking. Counts only grow, through all splices that have the record in turn. */
struct packet_response {
	__u64 sent_bytes;  /* forwarded */
	__u64 acked_bytes; /* and acknowledged by the client */
	__u64 head_at;     /* what was forwarded before the latest response */
	__u64 tail_at;     /* what was forwarded when `tail` were the last bytes */
	__u64 acked_ns;    /* when the client has acknowledged something last, by CLOCK_MONOTONIC */
	__u32 head_bytes;  /* how much of `head` there is */
	__u32 has_end;     /* RESPONSE_ENDED and so on */
	__u64 passed_bytes;  /* of requests that were left to the process */
	__u64 settled_bytes; /* of which it has passed on so many; written by the process */
	__u64 passed_end;    /* what was forwarded up to the end of the response to the latest request of the process */
	__u32 passed_status; /* and its status; 0: not known */
	__u32 told_status;   /* likewise, of the response that ends at `told_end` */
	__u32 judged_before; /* requests that had been forwarded before the latest one of the process */
	__u32 has_begun;     /* what the server sends is forwarded (PACKET_ARM_BODY) */
	__u64 whole_end;   /* what was forwarded up to the end of a response that is known; if that is all, the latest one is whole */
	__u64 told_as;       /* under which name requests are told of; written by the process */
	__u64 told_end;      /* what was forwarded up to the end of the response to the request that was told of last, or PACKET_LATEST */
	__u32 judged;        /* requests that were forwarded */
	__u32 method;        /* of the latest of them: an `enum request_method` */
	__u32 is_back;       /* the server has sent more than the rest of the response: the connections were given back */
	__u32 last_at;       /* where in `head` the last head begins, of which the others are interim (1xx) */
	__u32 is_adrift;   /* a request was sent behind a response that was not known to be whole: it is not known where responses begin */
	__u32 interim_bytes; /* so many of `head` are interim heads (1xx) and nothing else */
	__u32 asked_method;  /* of the latest request of the process, an `enum request_method`; written by the process */
	__u32 asked;         /* requests of the process, counted before they are sent; written by the process */
	__u32 early_from;    /* what of `head` has overtaken something; none if `early_end` is 0 */
	__u32 early_end;
	__u8 tail[8];      /* the last five bytes */
	__u8 head[PACKET_HEAD_BYTES] __attribute__((aligned(8))); /* the beginning of the latest response */
};

/* The longest request that the kernel forwards unseen. */
#define PACKET_REQUEST_BYTES 1460
#define PACKET_REQUEST_WORDS 184

/* The latest request that was forwarded unseen: only these very bytes may go to the server again. */
struct packet_request {
	__u64 words[PACKET_REQUEST_WORDS];
};

/* When something happened to these programs' splices, by CLOCK_MONOTONIC. Pinned as `pulse`; it stays as it is for ever, so that each
 * version of carrick can read the pulse of each other. */
struct packet_pulse {
	__u64 forwarded_ns; /* a packet was forwarded, to the second */
	__u64 attended_ns;  /* a process looked after them; 0: there is one as long as there are these programs */
};

#endif
