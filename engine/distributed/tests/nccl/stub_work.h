/* Cards, streams, events and memory of stub.c, and the work of streams. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef AMD
#define DRIVER(nvidia, amd) amd
#else
#define DRIVER(nvidia, amd) nvidia
#endif
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define NAME(nvidia, amd) TEXT(DRIVER(nvidia, amd))

#define CARDS 8
#define RANKS 8
#define ROOM (5 << 20)
#define OBJECTS 1024
#define QUEUE 4096
#define NOT_READY 600

typedef struct { char internal[128]; } Id;

enum kind { MEMORY, PINNED, STREAM, EVENT, KINDS };
enum work { UP, DOWN, RECORD, WAIT, COLLECTIVE };
enum collective { ALL_REDUCE, BROADCAST, ALL_GATHER, EXCHANGE };

/* What a rank has posted for the others. */
struct post {
    uint64_t posted, consumed;
    int kind, type, root;
    size_t count;
    char data[ROOM];
};

struct shared {
    int joined;
    struct post posts[RANKS];
};

struct comm {
    int alive, card, rank, world, async_error;
    uint64_t sequence;
    struct shared *shared;
};

struct op {
    enum work work;
    char *to;
    const char *from;
    size_t bytes, count;
    struct object *event;
    uint64_t serial;
    struct comm *comm;
    enum collective collective;
    int type, root, hangs, wrong, posted;
};

struct object {
    int used, card;
    enum kind kind;
    char *address;
    size_t bytes;
    /* Of an event: how often it was recorded, and has happened. */
    uint64_t recorded, happened;
    /* Of a stream. */
    struct op *queue;
    size_t head, tail;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object objects[OBJECTS];
static struct comm comms[64];
static int comm_count, initialized, retained[CARDS];
#ifdef AMD
static __thread int hip_card, hip_set;
#else
static char contexts[CARDS];
static __thread int stack[16], depth;
#endif
/* The group that this thread has begun. */
static __thread int group_depth, group_count, group_failed;
static __thread struct op group[2 * RANKS];
static __thread int group_peer[2 * RANKS], group_sends[2 * RANKS];
static __thread struct object *group_stream;

static void wrong(const char *call, const char *what) {
    fprintf(stderr, "stub: %s: %s\n", call, what);
    fflush(stderr);
    _Exit(86);
}

static void require(const char *call, int holds, const char *what) {
    if (!holds) wrong(call, what);
}

static void write_log(const char *line, int card) {
    const char *path = getenv("STUB_LOG");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (file < 0) return;
    char text[256];
    int length = snprintf(text, sizeof text, "%s %d\n", line, card);
    if (write(file, text, length) != length) wrong("log", "not written");
    close(file);
}

static int card_count(void) {
    const char *text = getenv("STUB_CARDS");
    return text ? atoi(text) : 4;
}

/* The current card of this thread, or -1. */
static int current(void) {
#ifdef AMD
    return hip_set ? hip_card : -1;
#else
    return depth ? stack[depth - 1] : -1;
#endif
}

/* Whether a variable, "function@card#n", means this call. */
static int means(const char *variable, const char *name) {
    static struct { char key[96]; int count; } counts[64];
    const char *text = getenv(variable);
    if (!text) return 0;
    size_t length = strcspn(text, "@#");
    if (strlen(name) != length || strncmp(text, name, length)) return 0;
    int card = current();
    const char *at = strchr(text, '@'), *number = strchr(text, '#');
    if (at && atoi(at + 1) != card) return 0;
    if (!number) return 1;
    char key[96];
    snprintf(key, sizeof key, "%s %s %d", variable, name, card);
    static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mine);
    int i = 0;
    while (counts[i].count && strcmp(counts[i].key, key)) i++;
    strcpy(counts[i].key, key);
    int count = ++counts[i].count;
    pthread_mutex_unlock(&mine);
    return count == atoi(number + 1);
}

/* At the start of a call: whether it fails. */
static int begin(const char *name, int code) {
    if (means("STUB_STUCK", name))
        for (;;) pause();
    return means("STUB_FAIL", name) ? code : 0;
}

#define BEGIN_DRIVER(nvidia, amd) \
    const char *call = NAME(nvidia, amd); \
    int failure = begin(call, 2); \
    if (failure) return failure; \
    require(call, initialized, "the driver is not initialized")

static struct object *find(enum kind kind, const void *address) {
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i].used && objects[i].kind == kind && objects[i].address == address) return &objects[i];
    return NULL;
}

static struct object *owned(const char *call, enum kind kind, const void *address) {
    struct object *object = find(kind, address);
    require(call, object != NULL, "a handle or address that does not exist (any more)");
    require(call, object->card == current(), "its card is not the current one of this thread");
    return object;
}

/* A range within memory of a kind. With STUB_HOST, the memory of the host is also that of cards. */
static void range(const char *call, enum kind kind, int card, const void *address, size_t bytes) {
    if (kind == MEMORY && getenv("STUB_HOST")) return;
    for (int i = 0; i < OBJECTS; i++) {
        struct object *object = &objects[i];
        const char *start = address;
        if (object->used && object->kind == kind && object->card == card && start >= object->address
            && start + bytes <= object->address + object->bytes)
            return;
    }
    wrong(call, kind == MEMORY ? "not within memory of the card" : "not within pinned memory");
}

static int make(const char *call, enum kind kind, size_t bytes, void **place) {
    require(call, current() >= 0, "no current card");
    require(call, bytes > 0, "nothing is asked for");
    pthread_mutex_lock(&lock);
    int i = 0;
    /* Events stay where they are: streams may still wait for them. */
    while (objects[i].used || objects[i].kind == EVENT)
        if (++i == OBJECTS) wrong(call, "too many objects");
    /* Never the address of an earlier one. */
    char *address = malloc(bytes);
    memset(address, 0xff, bytes);
    struct op *queue = kind == STREAM ? calloc(QUEUE, sizeof *queue) : NULL;
    objects[i] = (struct object){1, current(), kind, address, bytes, 0, 0, queue, 0, 0};
    *place = address;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Whether work that is not done uses an address. */
static int in_use(const struct object *object) {
    for (int i = 0; i < OBJECTS; i++)
        for (size_t j = objects[i].head; objects[i].used && objects[i].kind == STREAM && j < objects[i].tail; j++) {
            const struct op *op = &objects[i].queue[j % QUEUE];
            const char *start = object->address, *end = start + object->bytes;
            if ((op->to >= start && op->to < end) || (op->from >= start && op->from < end)) return 1;
        }
    return 0;
}

static int release(const char *call, enum kind kind, void *address) {
    pthread_mutex_lock(&lock);
    struct object *object = owned(call, kind, address);
    if (kind == STREAM) require(call, object->head == object->tail, "its work is not done");
    if (kind == MEMORY || kind == PINNED) require(call, !in_use(object), "work that is not done uses it");
    object->used = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void queue(struct object *stream, struct op op) {
    require("queue", stream->tail - stream->head < QUEUE, "too much work");
    stream->queue[stream->tail++ % QUEUE] = op;
}

static float widen(const char *data, int type, size_t i) {
    float value;
    uint32_t bits;
    if (type == 7) return ((const float *)data)[i];
    bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    memcpy(&value, &bits, 4);
    return value;
}

static void narrow(char *data, int type, size_t i, float value) {
    uint32_t bits;
    if (type == 7) {
        ((float *)data)[i] = value;
        return;
    }
    memcpy(&bits, &value, 4);
    ((uint16_t *)data)[i] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static size_t width(int type) { return type == 7 ? 4 : 2; }

/* How much of a collective each rank posts, in values. */
static size_t posted_values(const struct op *op) {
    switch (op->collective) {
    case EXCHANGE: return op->count * op->comm->world;
    case BROADCAST: return op->root == op->comm->rank ? op->count : 0;
    default: return op->count;
    }
}

/* Whether a collective is done. */
static int collect(struct op *op) {
    struct comm *comm = op->comm;
    if (!comm->alive) return !(op->hangs && getenv("STUB_DEAF"));
    if (op->hangs) return 0;
    struct post *own = &comm->shared->posts[comm->rank];
    for (int r = 0; r < comm->world && !op->posted; r++)
        if (__atomic_load_n(&comm->shared->posts[r].consumed, __ATOMIC_ACQUIRE) + 1 < op->serial) return 0;
    if (!op->posted) {
        own->kind = op->collective, own->type = op->type, own->root = op->root, own->count = op->count;
        memcpy(own->data, op->from, posted_values(op) * width(op->type));
        __atomic_store_n(&own->posted, op->serial, __ATOMIC_RELEASE);
        op->posted = 1;
    }
    for (int r = 0; r < comm->world; r++)
        if (__atomic_load_n(&comm->shared->posts[r].posted, __ATOMIC_ACQUIRE) < op->serial) return 0;
    size_t bytes = op->count * width(op->type);
    for (int r = 0; r < comm->world; r++) {
        struct post *post = &comm->shared->posts[r];
        require("collective", post->kind == (int)op->collective && post->type == op->type && post->root == op->root
                && post->count == op->count, "the ranks do not call the same");
        if (op->collective == ALL_GATHER) memcpy(op->to + r * bytes, post->data, bytes);
        if (op->collective == EXCHANGE) memcpy(op->to + r * bytes, post->data + comm->rank * bytes, bytes);
        if (op->collective == BROADCAST && r == op->root) memcpy(op->to, post->data, bytes);
    }
    for (size_t i = 0; i < op->count && op->collective == ALL_REDUCE; i++) {
        /* From the last rank, so that the order is not that of ranks. */
        float sum = widen(comm->shared->posts[comm->world - 1].data, op->type, i);
        for (int r = comm->world - 2; r >= 0; r--) {
            narrow(op->to, op->type, i, sum + widen(comm->shared->posts[r].data, op->type, i));
            sum = widen(op->to, op->type, i);
        }
        narrow(op->to, op->type, i, sum + op->wrong);
    }
    __atomic_store_n(&own->consumed, op->serial, __ATOMIC_RELEASE);
    return 1;
}

/* Does the next piece of work of some stream. */
static void proceed(void) {
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    size_t first = state >> 16;
    for (size_t i = 0; i < OBJECTS; i++) {
        struct object *stream = &objects[(first + i) % OBJECTS];
        if (!stream->used || stream->kind != STREAM || stream->head == stream->tail) continue;
        struct op *op = &stream->queue[stream->head % QUEUE];
        int done = 1;
        switch (op->work) {
        case UP:
        case DOWN: memcpy(op->to, op->from, op->bytes); break;
        case RECORD: op->event->happened = op->serial; break;
        case WAIT: done = op->event->happened >= op->serial; break;
        case COLLECTIVE: done = collect(op); break;
        }
        if (done) {
            stream->head++;
            return;
        }
    }
}
