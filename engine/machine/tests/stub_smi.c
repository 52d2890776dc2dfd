// ROCm SMI with two cards. Compiled with -DNEWER it has the structures of ROCm 6, otherwise those
// of ROCm 5; with -DFAILS it finds no driver; with -DLOST card 1 stops answering after three looks.
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { OK = 0, INVALID = 1, NOT_SUPPORTED = 2, FILE_ERROR = 3, INIT_ERROR = 8, TOO_SMALL = 11 };

static int users = 0;
static int looks = 0;

static int lost(uint32_t card) {
#ifdef LOST
    return card == 1 && looks > 3;
#else
    return 0;
#endif
}

int rsmi_init(uint64_t flags) {
#ifdef FAILS
    return INIT_ERROR;
#endif
    users++;
    return flags == 0 ? OK : INVALID;
}

int rsmi_shut_down(void) { return --users < 0 ? INVALID : OK; }

int rsmi_num_monitor_devices(uint32_t *count) {
    *count = 2;
    return users > 0 ? OK : INIT_ERROR;
}

int rsmi_dev_name_get(uint32_t card, char *name, size_t room) {
    const char *text = card == 0 ? "Instinct MI250X" : "Radeon VII";
    strncpy(name, text, room);
    return strlen(text) < room ? OK : TOO_SMALL;
}

int rsmi_dev_busy_percent_get(uint32_t card, uint32_t *percent) {
    *percent = card == 0 ? 87 : 3;
    looks += card == 1;
    return lost(card) ? FILE_ERROR : OK;
}

int rsmi_dev_memory_total_get(uint32_t card, int type, uint64_t *bytes) {
    *bytes = (uint64_t)(card == 0 ? 64 : 16) << 30;
    return type == 0 ? OK : INVALID;
}

int rsmi_dev_memory_usage_get(uint32_t card, int type, uint64_t *bytes) {
    if (lost(card)) return FILE_ERROR;
    *bytes = (uint64_t)(card + 1) << 30;
    return type == 0 ? OK : INVALID;
}

#ifdef NEWER
int rsmi_dev_power_get(uint32_t card, uint64_t *microwatts, int *type) {
    *microwatts = 412500000;
    *type = 1;
    return card == 0 ? OK : NOT_SUPPORTED;
}
#endif

int rsmi_dev_power_ave_get(uint32_t card, uint32_t sensor, uint64_t *microwatts) {
    if (lost(card)) return FILE_ERROR;
    *microwatts = 95000000;
    return card == 1 && sensor == 0 ? OK : NOT_SUPPORTED;
}

// Card 0 has no sensor at its edge.
int rsmi_dev_temp_metric_get(uint32_t card, uint32_t sensor, int metric, int64_t *millidegrees) {
    if (lost(card)) return FILE_ERROR;
    if (metric != 0 || sensor != (card == 0 ? 1u : 0u)) return NOT_SUPPORTED;
    *millidegrees = card == 0 ? 71500 : -4000;
    return OK;
}

typedef struct {
#ifdef NEWER
    bool has_deep_sleep;
#endif
    uint32_t num_supported;
    uint32_t current;
#ifdef NEWER
    uint64_t frequency[33];
#else
    uint64_t frequency[32];
#endif
} frequencies;

int rsmi_dev_gpu_clk_freq_get(uint32_t card, int clock, frequencies *f) {
    if (lost(card)) return FILE_ERROR;
    if (card == 1 && clock == 4) return NOT_SUPPORTED;
    // Padding holds anything.
    memset(f, 0xEE, sizeof *f);
#ifdef NEWER
    f->has_deep_sleep = card == 0;
#endif
    f->num_supported = 3;
    f->current = clock == 0 ? 2 : 0;
    for (int i = 0; i < 3; i++) f->frequency[i] = 400000000ull * (i + 1) + 100000000ull * card;
    return clock == 0 || clock == 4 ? OK : INVALID;
}
