/* Forms of code that the verifier of every supported kernel understands. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_COMMON_BOUNDS_H
#define CARRICK_COMMON_BOUNDS_H

/* A function for the verifier, too: it looks at each by itself, once, whatever it is called with. Used for loops and for what is called
 * often. None may have an argument that is null, though it never is. Their stacks are kept small, since they add up with the caller's. */
#define GLOBAL_FUNCTION __attribute__((noinline))

/* Whether a variable is from `least` to `most`, so that the verifier knows, too. From plain C the compiler makes one
 * comparison, on a copy, from which kernels before 6.18 do not infer the variable's own bounds; nor do those before
 * 6.3 from `!= 0`. */
#define IS_WITHIN(variable, least, most) ({ \
	__typeof__(variable) least_of_it = (least); \
	int is_within = 0; \
\
	asm volatile("" : "+r"(variable), "+r"(least_of_it)); \
	if (variable <= (most)) { \
		asm volatile("" : "+r"(variable)); \
		if (variable >= least_of_it) { \
			asm volatile("" : "+r"(variable)); \
			is_within = 1; \
		} \
	} \
	is_within; \
})

#endif
