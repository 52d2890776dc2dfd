/* An injection library as NVIDIA's profilers have one: writes what it receives to the file that STUB_NVTX
 * names. Every module is asked for, as by a profiler. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
} attributes;

typedef void (*function)(void);
typedef struct {
    size_t size;
    int (*table)(int module, function ***table, unsigned *size);
} callbacks;
typedef struct {
    size_t size;
    uint32_t version, reserved;
    void (*set_version)(uint32_t);
} version_info;

static FILE *file(void) { return fopen(getenv("STUB_NVTX"), "a"); }

static void event(const char *what, const attributes *a)
{
    FILE *out = file();
    if (a->version != 3 || a->size != sizeof *a || a->color_type != 1 || a->message_type != 1 || a->payload_type)
        fprintf(out, "wrong attributes\n");
    fprintf(out, "%s %s, category %u, colour %08x\n", what, a->message, a->category, a->color);
    fclose(out);
}

static int push(const attributes *a) { event("+", a); return 0; }
static uint64_t start(const attributes *a) { event("start", a); return 1ull << 40; }

static int pop(void)
{
    FILE *out = file();
    fprintf(out, "-\n");
    fclose(out);
    return 0;
}

static void end(uint64_t id)
{
    FILE *out = file();
    fprintf(out, "end %d\n", id == 1ull << 40);
    fclose(out);
}

static void name_category(uint32_t id, const char *name)
{
    FILE *out = file();
    fprintf(out, "category %u is %s\n", id, name);
    fclose(out);
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    static const unsigned sizes[] = {0, 16, 9, 15, 7, 16, 7};
    const callbacks *all = export_table(1);
    const version_info *version = export_table(3);
    function **table;
    unsigned size;
    if (getenv("STUB_REFUSES")) return 0;
    if (!all || all->size < sizeof *all || !version || version->version != 3) return 0;
    version->set_version(3);
    for (int module = 1; module < 7; module++) {
        if (!all->table(module, &table, &size) || size != sizes[module]) return 0;
        /* A profiler may fill every place. */
        for (unsigned entry = 1; entry < size; entry++) if (!table[entry]) return 0;
    }
    if (all->table(7, &table, &size) || !all->table(1, &table, &size)) return 0;
    *table[4] = (function)start;
    *table[7] = (function)end;
    *table[8] = (function)push;
    *table[11] = (function)pop;
    *table[12] = (function)name_category;
    return 1;
}
