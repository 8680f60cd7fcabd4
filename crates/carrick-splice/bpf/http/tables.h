/* What the classifier of requests (classifier.h) and the process share. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_HTTP_TABLES_H
#define CARRICK_HTTP_TABLES_H

/* Longer heads are for the process: they would not come in one packet. */
#define REQUEST_HEAD_MAX 1460

/* Routes of a table are bits. What has more is cut, and its last route is the process's. */
#define REQUEST_ROUTES_MAX 32

/* Different host names, paths and extensions of a table. */
#define REQUEST_TEXTS_MAX 96
#define REQUEST_TEXT_WORDS 8
#define REQUEST_TEXT_MAX 64

/* Different cookies of a table. */
#define REQUEST_COOKIES_MAX 8
#define REQUEST_COOKIE_WORDS 4
#define REQUEST_COOKIE_MAX 31

/* Tables, one for each listener. */
#define REQUEST_TABLES_MAX 64

/* Upstreams whose clients can be told to choose a server again. */
#define REQUEST_UPSTREAMS_MAX 4096

/* What an event tells of path (with its query) and host. */
#define REQUEST_EVENT_PATH_MAX 128
#define REQUEST_EVENT_HOST_MAX 64

enum request_method {
	REQUEST_GET = 0,
	REQUEST_HEAD = 1,
	REQUEST_OPTIONS = 2,
	REQUEST_DELETE = 3,
	REQUEST_METHODS = 4,
};

/* Where a text is looked for. */
enum request_text_kind {
	REQUEST_PATH = 0,       /* at the path's beginning */
	REQUEST_EXTENSION = 1,  /* at the end of the path's last segment; with its dot */
	REQUEST_HOST = 2,       /* it is the host */
	REQUEST_HOST_BELOW = 3, /* the host ends with it, and has more; with its dot */
	REQUEST_TEXT_KINDS = 4,
};

/* Why a request is up to the process. */
enum request_up {
	UP_TABLE = 1,    /* there is no such table, or it is another one by now */
	UP_LENGTH = 2,   /* too long for the classifier, or for the configuration's limit; too short for a request */
	UP_PART = 3,     /* not one whole head without body: a part, or more than one */
	UP_METHOD = 4,   /* not GET, HEAD, OPTIONS or DELETE */
	UP_TARGET = 5,   /* not a path, or a byte in it that does not belong there */
	UP_VERSION = 6,  /* not HTTP/1.1, or the request line is not in its usual form */
	UP_FIELD = 7,    /* a field line is not in the usual form: `name: value` of letters, digits and hyphens; text */
	UP_FIELDS = 8,   /* too many field lines; where cookies matter, they count as lines */
	UP_MEANING = 9,  /* a field that means something to a proxy */
	UP_HOST = 10,    /* none, two, or not a name or IPv4 address with or without port */
	UP_COOKIE = 11,  /* spaces in unusual places, where cookies matter */
	UP_NO_ROUTE = 12, /* no route takes it */
	UP_ROUTE = 13,   /* the first route that may take it is the process's */
	UP_REASONS = 16,
};

/* A text that is compared with a part of the head, eight bytes at a time: ((head | folds) ^ words) & masks is 0. */
struct request_text {
	__u64 words[REQUEST_TEXT_WORDS];
	__u64 masks[REQUEST_TEXT_WORDS]; /* 0 where the text has ended */
	__u64 folds[REQUEST_TEXT_WORDS]; /* 0x20 at letters that are compared without case */
	__u32 bytes;
	__u32 kind;   /* `enum request_text_kind` */
	__u32 routes; /* which are content with it */
	__u32 reserved;
};

/* A cookie's name. */
struct request_cookie {
	__u64 words[REQUEST_COOKIE_WORDS];
	__u64 masks[REQUEST_COOKIE_WORDS];
	__u32 bytes;
	__u32 present; /* the routes that want it */
	__u32 absent;  /* the routes that do not */
	__u32 reserved;
};

/* The line `Connection: keep-alive`, which servers do not get. */
#define KEEP_ALIVE_BYTES 24

/* Field lines that a request is forwarded with, behind its own. */
#define REQUEST_FIELDS_BYTES 256
#define REQUEST_HOST_WORDS 9

struct request_fields {
	__u64 host[REQUEST_HOST_WORDS]; /* which the lines name; padded with zeros */
	__u32 host_bytes; /* 0: they name none */
	__u32 bytes;      /* of text, at most REQUEST_FIELDS_BYTES; 0: requests are forwarded as they are */
	__u8 text[REQUEST_FIELDS_BYTES]; /* with the empty line that ends a head */
};

/* The routes of a listener. Bit i is route i; the first one that is left is taken. */
struct request_table {
	__u32 generation; /* of those that ask */
	__u32 routes;     /* all that there are */
	__u32 in_kernel;  /* those whose requests may be forwarded unseen */
	__u32 by_method[REQUEST_METHODS];
	__u32 by_cgi[2];       /* neither /cgi-bin/ nor a query; either */
	__u32 with_path;       /* those with a condition on it */
	__u32 with_extension;  /* likewise */
	__u32 with_host;       /* likewise */
	__u32 asks_for_cgi;    /* likewise */
	__u32 texts_count;
	__u32 cookies_count;
	__u32 head_bytes_max; /* the configuration's limits */
	__u32 fields_max;
	__u32 passes_forwarded; /* what the client sent as X-Forwarded-* and Forwarded goes on as it is */
	__u32 sample_every;     /* each n-th request is told; 0: none */
	__u32 reserved;
	__u32 upstreams[REQUEST_ROUTES_MAX];
	struct request_cookie cookies[REQUEST_COOKIES_MAX];
	struct request_text texts[REQUEST_TEXTS_MAX];
};

/* What each CPU has counted. */
struct request_counts {
	__u64 classified; /* by the kernel: a route was found */
	__u64 up[UP_REASONS];
	__u64 events;
	__u64 events_lost; /* there was no room for them */
	__u64 sampled;  /* requests since the last one that was told */
};

/* A request that was forwarded unseen. */
struct request_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 sent_bytes; /* of responses, since the splice's record began, before this one's */
	__u64 told_end;   /* likewise, up to the end of the response to the request that was told of before */
	__u64 told_as;    /* under which name it is told of */
	__u32 place;      /* of the splice */
	__u32 told_status; /* of the response that ends at `told_end`; 0: not known */
	__u32 table;
	__u32 generation;
	__u32 sample_every; /* it stands for so many */
	__u16 head_bytes;
	__u16 path_bytes; /* query included; may be more than there are below */
	__u16 host_bytes; /* likewise */
	__u8 route;
	__u8 method; /* `enum request_method` */
	__u8 path[REQUEST_EVENT_PATH_MAX];
	__u8 host[REQUEST_EVENT_HOST_MAX];
};

/* In a test of the classifier, what stands behind the Ethernet header, before the request; and what stands there afterwards. */
struct classify_order {
	__u32 table;
	__u32 generation;
	__u32 wants; /* `enum classify_wants` */
	__u32 place; /* of the splice of which it is told */
};

enum classify_wants {
	CLASSIFY_ANSWER = 1, /* an answer in the packet */
	CLASSIFY_TELL = 2,   /* an event */
};

struct classify_answer {
	__u32 upstream;
	__u32 method;
	__u32 path_bytes;
	__u32 host_bytes;
};

#endif
