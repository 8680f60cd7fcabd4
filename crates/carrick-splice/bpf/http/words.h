/* Handles eight bytes of text at a time. A mask of flags has the highest bit set in each selected byte, and no other
 * bits. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_HTTP_WORDS_H
#define CARRICK_HTTP_WORDS_H

/* A byte repeated eight times. */
#define EACH(byte) (0x0101010101010101ULL * (byte))
#define HIGH_BITS EACH(0x80)

/* Text as a word, the first byte lowest. */
#define LETTERS(a, b, c, d) ((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24)
#define WORD(a, b, c, d, e, f, g, h) (LETTERS(a, b, c, d) | LETTERS(e, f, g, h) << 32)

/* OR-ed in, turns capital letters into small ones; see each use for its effect on other bytes. */
#define SMALL EACH(0x20)

/* The eight bytes at an address, the first one lowest. It may be unaligned: the verifier allows that in maps, on
 * processors that do (all that Linux runs BPF on today). */
static __always_inline __u64 word_at(const __u8 *at)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap64(*(const __u64 *)at);
#else
	return *(const __u64 *)at;
#endif
}

static __always_inline __u16 pair_at(const __u8 *at)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap16(*(const __u16 *)at);
#else
	return *(const __u16 *)at;
#endif
}

/* In these three, the bytes of `word` must be below 0x80, so that no byte affects another one's flag. */
static __always_inline __u64 equal(__u64 word, __u64 byte)
{
	return (HIGH_BITS - (word ^ EACH(byte))) & HIGH_BITS;
}

static __always_inline __u64 below(__u64 word, __u64 byte)
{
	return ~(word + EACH(0x80 - byte)) & HIGH_BITS;
}

static __always_inline __u64 between(__u64 word, __u64 first, __u64 last)
{
	return below(word, last + 1) & ~below(word, first);
}

/* The number of bytes before the first flag; 8 if there is none. */
static __always_inline __u32 before_first(__u64 flags)
{
	flags >>= 7;
	return (((flags & -flags) - 1) & EACH(1)) * EACH(1) >> 56;
}

/* The number of bytes up to and including the last flag; 0 if there is none. */
static __always_inline __u32 up_to_last(__u64 flags)
{
	flags >>= 7;
	flags |= flags >> 8;
	flags |= flags >> 16;
	flags |= flags >> 32;
	return flags * EACH(1) >> 56;
}

/* The flags of `these` before the first flag of `flags`; all if there is none. */
static __always_inline __u64 those_before(__u64 these, __u64 flags)
{
	return these & ((flags & -flags) - 1);
}

#endif
