/* Functions of newer glibcs that LLVM and GCC's C++ library call, by what an old one has. They are weak: the glibc or the
   library that also has one of them wins. <malloc.h> is left out because it declares `mallinfo2` in the glibcs that have it. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define WEAK __attribute__((weak))

/* 2.32. What reads it may leave out atomic operations where it is not zero. */
WEAK char __libc_single_threaded = 0;

/* 2.33. Counts above 2^31 bytes come out wrong; LLVM prints them as statistics. */
struct counts {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct wide_counts {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct counts mallinfo(void);
WEAK struct wide_counts mallinfo2(void) {
    struct counts of = mallinfo();
    return (struct wide_counts){of.arena,   of.ordblks,  of.smblks,   of.hblks,    of.hblkhd,
                                of.usmblks, of.fsmblks, of.uordblks, of.fordblks, of.keepcost};
}

/* 2.36 */
WEAK uint32_t arc4random(void) {
    uint32_t value = 0;
    while (getrandom(&value, sizeof value, 0) != sizeof value) {
        if (errno != EINTR) {
            abort();
        }
    }
    return value;
}

/* 2.38, which a compiler with its headers calls in place of `strtol` and the like: these also know 0b1010. */
WEAK long __isoc23_strtol(const char *text, char **end, int base) { return strtol(text, end, base); }
WEAK unsigned long __isoc23_strtoul(const char *text, char **end, int base) { return strtoul(text, end, base); }
WEAK long long __isoc23_strtoll(const char *text, char **end, int base) { return strtoll(text, end, base); }
WEAK unsigned long long __isoc23_strtoull(const char *text, char **end, int base) { return strtoull(text, end, base); }
