/* What the BPF programs of packet rules and the process share. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_RULES_H
#define CARRICK_RULES_H

/* So many rules are in a set at most: each packet that none matches is compared with all. */
#define RULES_MAX 64

/* Bits of what a packet is, and of what a rule takes. */
enum rule_kind {
	KIND_IN = 1,
	KIND_OUT = 2,
	KIND_TCP = 4,
	KIND_UDP = 8,
	KIND_IPV4 = 16,
	KIND_IPV6 = 32,
};

enum rule_action {
	RULE_PASS = 0,
	RULE_DROP = 1,
	RULE_REDIRECT = 2,
	RULE_REWRITE = 3,
};

/* What of the action is wanted. */
enum rule_flag {
	RULE_ADDRESSES = 1,    /* either one */
	RULE_PORTS = 2,        /* either one */
	RULE_TCP = 4,          /* something in the TCP header but ports */
	RULE_WINDOW = 8,       /* never more than `window` */
	RULE_WINDOW_SET = 16,  /* always `window` */
	RULE_MSS = 32,         /* a SYN announces `mss` at most */
	RULE_NO_TIMESTAMPS = 64, /* a SYN does not offer timestamps */
	RULE_NO_SACK = 128,    /* a SYN does not offer selective acknowledgements */
	RULE_EXIT = 256,       /* send on by the interface `exit` */
	RULE_MARK = 512,       /* set the firewall mark */
};

/* The interface of a rule does not exist now. */
#define RULE_NO_INTERFACE 0x7fffffff

/* Addresses are in network order, IPv4 as ::ffff:a.b.c.d; all other numbers in the order of the host. */
struct rule {
	/* What it takes. */
	__u32 source[4];
	__u32 source_mask[4];
	__u32 destination[4];
	__u32 destination_mask[4];
	__u32 ifindex;
	__u32 ifindex_mask; /* 0: any interface */
	__u16 source_port_min;
	__u16 source_port_max;
	__u16 destination_port_min;
	__u16 destination_port_max;
	__u16 vlan; /* 0: packets without a tag */
	__u8 kinds; /* `enum rule_kind` */
	/* What it does: `enum rule_action`, `enum rule_flag`. */
	__u8 action;
	__u32 flags;
	/* Where the bit of the mask is 0, an address or port stays. */
	__u32 new_addresses[8]; /* source, destination; IPv4 addresses are in the first two */
	__u32 new_addresses_mask[8];
	__u16 new_ports[2]; /* source, destination; in network order */
	__u16 new_ports_mask[2];
	__u32 sequence;       /* added */
	__u32 acknowledgement; /* added, also to selective ones */
	__u32 tsval;          /* added */
	__u32 tsecr;          /* added */
	__u16 window;
	__u16 mss;
	__u16 port; /* of the local socket; in network order */
	__u16 reserved;
	__u32 mark;
	__u32 exit;
	/* What it has done; each CPU counts for itself. */
	__u64 packets;
	__u64 bytes;
	__u64 failed;
};

/* As it stands in the map, once for each CPU. */
struct rule_set {
	__u32 count;
	__u32 found; /* the rule of the packet that is looked at */
	struct rule rules[RULES_MAX];
};

#endif
