/* The arithmetic of core.h for each instruction set that the processor may have, and the choice among them. */

#define CONCAT_(a, b) a##_##b
#define CONCAT(a, b) CONCAT_(a, b)
#define FN(name) CONCAT(name, ISA)

#define ISA base
#define LANES 4
#define ROWS 4
#ifdef __aarch64__
#define VECS 4
#else
#define VECS 2
#endif
#include "core.h"
#undef ISA
#undef LANES
#undef ROWS
#undef VECS

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define ISA avx2
#define LANES 8
#define ROWS 6
#define VECS 2
#include "core.h"
#undef ISA
#undef LANES
#undef ROWS
#undef VECS
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,fma")
#endif
#define ISA avx512
#define LANES 16
#define ROWS 4
#define VECS 4
#include "core.h"
#undef ISA
#undef LANES
#undef ROWS
#undef VECS
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

static const Core *find_core(const char *isa) {
    const int any = !strcmp(isa, "auto");
#ifdef __x86_64__
    __builtin_cpu_init();
    if ((any || !strcmp(isa, "avx512")) && __builtin_cpu_supports("avx512f")) return &core_avx512;
    if ((any || !strcmp(isa, "avx2")) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &core_avx2;
#endif
    return any || !strcmp(isa, "base") ? &core_base : 0;
}
