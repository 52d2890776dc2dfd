// NVML with two cards: card 0 has all sensors, card 1 has no power sensor and falls off the bus
// after three looks.
#include <stdio.h>
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, GPU_LOST = 15 };

typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;

static int looks = 0;
static char cards[2];

static int card(void *device) { return (char *)device == &cards[1]; }

static int lost(void *device) { return card(device) && looks > 3; }

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int status) { return status == GPU_LOST ? "GPU is lost" : "error"; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "570.00");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 2;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index > 1) return INVALID;
    *device = &cards[index];
    return OK;
}

// The second card has one of the bus's long addresses.
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device) {
    if (strcmp(address, "0000:01:00.0") && strcmp(address, "00000001:c1:00.0")) return NOT_FOUND;
    *device = &cards[address[7] == '1'];
    return OK;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    snprintf(name, length, card(device) ? "GeForce GT 1030" : "H100 80GB HBM3");
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, memory *info) {
    unsigned long long total = (card(device) ? 2ull : 80ull) << 30;
    if (lost(device)) return GPU_LOST;
    if (info->version != (sizeof *info | 2 << 24)) return INVALID;
    *info = (memory){info->version, total, 0, total / 4, total - total / 4};
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *device, utilization *rates) {
    *rates = (utilization){card(device) ? 5 : 98, 40};
    looks += card(device);
    return lost(device) ? GPU_LOST : OK;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    *milliwatts = 651250;
    return lost(device) ? GPU_LOST : card(device) ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
    *degrees = card(device) ? 40 : 66;
    return lost(device) ? GPU_LOST : sensor == 0 ? OK : INVALID;
}

// 1: multiprocessors, 2: memory.
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *megahertz) {
    *megahertz = clock == 1 ? 1980 : 2619;
    if (card(device)) *megahertz /= 3;
    return lost(device) ? GPU_LOST : clock == 1 || clock == 2 ? OK : INVALID;
}
