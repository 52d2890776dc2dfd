/* The functions of the driver that stub.c simulates. */

#include "stub_work.h"

int DRIVER(cuInit, hipInit)(unsigned flags) {
    int failure = begin(NAME(cuInit, hipInit), 100);
    require("init", flags == 0, "flags");
    if (!failure) initialized = 1;
    return failure;
}

int DRIVER(cuDeviceGetCount, hipGetDeviceCount)(int *count) {
    BEGIN_DRIVER(cuDeviceGetCount, hipGetDeviceCount);
    *count = card_count();
    return 0;
}

int DRIVER(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId)(char *text, int length, int card) {
    BEGIN_DRIVER(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId);
    require(call, card >= 0 && card < card_count() && length > 12, "a card that does not exist, or no room");
    snprintf(text, length, "0000:0%X:00.0", 10 + card);
    return 0;
}

int DRIVER(cuMemAlloc_v2, hipMalloc)(void **place, size_t bytes) {
    BEGIN_DRIVER(cuMemAlloc_v2, hipMalloc);
    return make(call, MEMORY, bytes, place);
}

int DRIVER(cuMemFree_v2, hipFree)(void *address) {
    BEGIN_DRIVER(cuMemFree_v2, hipFree);
    return release(call, MEMORY, address);
}

int DRIVER(cuMemHostAlloc, hipHostMalloc)(void **place, size_t bytes, unsigned flags) {
    BEGIN_DRIVER(cuMemHostAlloc, hipHostMalloc);
    require(call, flags == 0, "flags");
    return make(call, PINNED, bytes, place);
}

int DRIVER(cuMemFreeHost, hipHostFree)(void *address) {
    BEGIN_DRIVER(cuMemFreeHost, hipHostFree);
    return release(call, PINNED, address);
}

int DRIVER(cuStreamCreate, hipStreamCreateWithFlags)(void **place, unsigned flags) {
    BEGIN_DRIVER(cuStreamCreate, hipStreamCreateWithFlags);
    require(call, flags == 1, "the stream waits for the default one");
    return make(call, STREAM, 1, place);
}

int DRIVER(cuStreamDestroy_v2, hipStreamDestroy)(void *stream) {
    BEGIN_DRIVER(cuStreamDestroy_v2, hipStreamDestroy);
    return release(call, STREAM, stream);
}

int DRIVER(cuEventCreate, hipEventCreateWithFlags)(void **place, unsigned flags) {
    BEGIN_DRIVER(cuEventCreate, hipEventCreateWithFlags);
    require(call, flags == 2, "the event measures time");
    return make(call, EVENT, 1, place);
}

int DRIVER(cuEventDestroy_v2, hipEventDestroy)(void *event) {
    BEGIN_DRIVER(cuEventDestroy_v2, hipEventDestroy);
    return release(call, EVENT, event);
}

int DRIVER(cuStreamQuery, hipStreamQuery)(void *address) {
    BEGIN_DRIVER(cuStreamQuery, hipStreamQuery);
    pthread_mutex_lock(&lock);
    struct object *stream = owned(call, STREAM, address);
    proceed();
    int ready = stream->head == stream->tail;
    pthread_mutex_unlock(&lock);
    return ready ? 0 : NOT_READY;
}

int DRIVER(cuEventQuery, hipEventQuery)(void *address) {
    BEGIN_DRIVER(cuEventQuery, hipEventQuery);
    pthread_mutex_lock(&lock);
    struct object *event = owned(call, EVENT, address);
    proceed();
    int ready = event->happened >= event->recorded;
    pthread_mutex_unlock(&lock);
    return ready ? 0 : NOT_READY;
}

int DRIVER(cuEventRecord, hipEventRecord)(void *event, void *stream) {
    BEGIN_DRIVER(cuEventRecord, hipEventRecord);
    pthread_mutex_lock(&lock);
    struct object *object = owned(call, EVENT, event);
    /* The default stream has nothing to do. */
    if (stream == NULL) object->happened = ++object->recorded;
    else queue(owned(call, STREAM, stream), (struct op){.work = RECORD, .event = object, .serial = ++object->recorded});
    pthread_mutex_unlock(&lock);
    return 0;
}

int DRIVER(cuStreamWaitEvent, hipStreamWaitEvent)(void *stream, void *event, unsigned flags) {
    BEGIN_DRIVER(cuStreamWaitEvent, hipStreamWaitEvent);
    pthread_mutex_lock(&lock);
    struct object *object = owned(call, EVENT, event);
    require(call, flags == 0 && object->recorded > 0, "flags, or an event that was never recorded");
    queue(owned(call, STREAM, stream), (struct op){.work = WAIT, .event = object, .serial = object->recorded});
    pthread_mutex_unlock(&lock);
    return 0;
}

static int copy(const char *call, enum work work, void *to, const void *from, size_t bytes, void *stream) {
    pthread_mutex_lock(&lock);
    struct object *object = owned(call, STREAM, stream);
    require(call, bytes > 0, "nothing is copied");
    range(call, work == UP ? MEMORY : PINNED, object->card, to, bytes);
    range(call, work == UP ? PINNED : MEMORY, object->card, from, bytes);
    queue(object, (struct op){.work = work, .to = to, .from = from, .bytes = bytes});
    pthread_mutex_unlock(&lock);
    return 0;
}

#ifdef AMD
const char *hipGetErrorString(int code) { return code == 2 ? "out of memory" : "error of the stub"; }

int hipGetDevice(int *card) {
    BEGIN_DRIVER(-, hipGetDevice);
    *card = hip_card;
    return 0;
}

int hipSetDevice(int card) {
    BEGIN_DRIVER(-, hipSetDevice);
    require(call, card >= 0 && card < card_count(), "a card that does not exist");
    hip_card = card, hip_set = 1;
    return 0;
}

int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    BEGIN_DRIVER(-, hipMemcpyAsync);
    require(call, kind == 1 || kind == 2, "the direction");
    return copy(call, kind == 1 ? UP : DOWN, to, from, bytes, stream);
}
#else
int cuGetErrorString(int code, const char **text) {
    *text = code == 2 ? "out of memory" : NULL;
    return code == 2 ? 0 : 1;
}

int cuDeviceGet(int *card, int number) {
    BEGIN_DRIVER(cuDeviceGet, -);
    require(call, number >= 0 && number < card_count(), "a card that does not exist");
    *card = number;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int card) {
    BEGIN_DRIVER(cuDevicePrimaryCtxRetain, -);
    __atomic_add_fetch(&retained[card], 1, __ATOMIC_SEQ_CST);
    *context = &contexts[card];
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int card) {
    BEGIN_DRIVER(cuDevicePrimaryCtxRelease_v2, -);
    require(call, __atomic_sub_fetch(&retained[card], 1, __ATOMIC_SEQ_CST) >= 0, "it was not retained");
    return 0;
}

int cuCtxPushCurrent_v2(void *context) {
    BEGIN_DRIVER(cuCtxPushCurrent_v2, -);
    long card = (char *)context - contexts;
    require(call, card >= 0 && card < CARDS && retained[card] > 0, "not a context that is retained");
    stack[depth++] = card;
    return 0;
}

int cuCtxPopCurrent_v2(void **context) {
    BEGIN_DRIVER(cuCtxPopCurrent_v2, -);
    require(call, depth > 0, "there is none");
    *context = &contexts[stack[--depth]];
    return 0;
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) {
    BEGIN_DRIVER(cuMemcpyHtoDAsync_v2, -);
    return copy(call, UP, (void *)(uintptr_t)to, from, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream) {
    BEGIN_DRIVER(cuMemcpyDtoHAsync_v2, -);
    return copy(call, DOWN, to, (void *)(uintptr_t)from, bytes, stream);
}
#endif
