/* NCCL and CUDA in one library for tests, or RCCL and HIP (built with AMD defined). GPUs are memory
 * of the host. Work of a stream is done a piece at a time when something is asked for, in a random
 * order between streams, so that what events do not order goes wrong. Ranks are threads or processes;
 * they exchange data through a file that the unique identifier names. Arguments, order and lifetimes
 * of each call are checked, and the process ends where they are wrong.
 *
 * STUB_LOG is a file to which calls of NCCL are written, and what is left at the end. STUB_CARDS is
 * the number of GPUs, STUB_VERSION the results of ncclGetVersion in turn. STUB_FAIL, STUB_STUCK,
 * STUB_HANG, STUB_ASYNC and STUB_WRONG name a function, and with "@card" and "#n" the card and the call
 * of it that fails, does not return, has work that never ends, is followed by an asynchronous error, or
 * computes sums that are too large by 1. With STUB_DEAF, work that hangs does not end when the
 * communicator is aborted. */

#include "stub_driver.h"

#define BEGIN_NCCL(name) \
    const char *call = #name; \
    int failure = begin(call, 2); \
    write_log(call, current()); \
    if (failure) { \
        group_failed = 1; \
        return failure; \
    }

const char *ncclGetErrorString(int code) {
    return code == 2 ? "unhandled system error" : code == 6 ? "remote process exited" : "error of the stub";
}

#ifndef WITHOUT_LAST_ERROR
const char *ncclGetLastError(void *comm) {
    (void)comm;
    return "\nsocket of the stub\n";
}
#endif

int ncclGetVersion(int *version) {
    static int calls;
    BEGIN_NCCL(ncclGetVersion);
    const char *text = getenv("STUB_VERSION");
    for (int call = __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST); text && call > 0 && strchr(text, ','); call--)
        text = strchr(text, ',') + 1;
    *version = text ? atoi(text) : 22105;
    return 0;
}

int ncclGetUniqueId(Id *id) {
    BEGIN_NCCL(ncclGetUniqueId);
    const char *folder = getenv("TMPDIR");
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%s/nccl-stub-XXXXXX", folder ? folder : "/tmp");
    int file = mkstemp(id->internal);
    require(call, file >= 0 && ftruncate(file, sizeof(struct shared)) == 0, "no file for the ranks");
    close(file);
    return 0;
}

int ncclCommInitRank(void **place, int world, Id id, int rank) {
    BEGIN_NCCL(ncclCommInitRank);
    require(call, current() >= 0, "no current card");
    require(call, rank >= 0 && rank < world && world <= RANKS, "no such rank");
    int file = open(id.internal, O_RDWR);
    require(call, file >= 0, "not a unique identifier");
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    require(call, shared != MAP_FAILED, "no memory");
    __atomic_add_fetch(&shared->joined, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&shared->joined, __ATOMIC_SEQ_CST) < world) usleep(100);
    if (rank == 0) unlink(id.internal);
    struct comm *comm = &comms[__atomic_fetch_add(&comm_count, 1, __ATOMIC_SEQ_CST)];
    *comm = (struct comm){.alive = 1, .card = current(), .rank = rank, .world = world, .shared = shared};
    *place = comm;
    return 0;
}

static struct comm *alive(const char *call, void *handle) {
    struct comm *comm = handle;
    require(call, comm >= comms && comm < comms + comm_count && comm->alive, "not a communicator (any more)");
    require(call, comm->card == current(), "its card is not the current one of this thread");
    return comm;
}

int ncclCommDestroy(void *handle) {
    BEGIN_NCCL(ncclCommDestroy);
    pthread_mutex_lock(&lock);
    struct comm *comm = alive(call, handle);
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i].used && objects[i].kind == STREAM)
            for (size_t j = objects[i].head; j < objects[i].tail; j++)
                require(call, objects[i].queue[j % QUEUE].comm != comm, "its work is not done");
    comm->alive = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

int ncclCommAbort(void *handle) {
    BEGIN_NCCL(ncclCommAbort);
    pthread_mutex_lock(&lock);
    alive(call, handle)->alive = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

int ncclCommGetAsyncError(void *handle, int *code) {
    const char *call = "ncclCommGetAsyncError";
    int failure = begin(call, 2);
    if (failure) return failure;
    *code = alive(call, handle)->async_error;
    return 0;
}

static struct op prepare(const char *call, void *handle, void *address, int type) {
    struct comm *comm = alive(call, handle);
    struct object *stream = owned(call, STREAM, address);
    require(call, stream->card == comm->card, "the stream is of another card");
    require(call, type == 7 || type == 9, "the type is neither f32 nor bf16");
    return (struct op){.work = COLLECTIVE, .comm = comm, .type = type};
}

static int collective(const char *call, enum collective kind, const void *from, void *to, size_t count, int type,
                      int root, void *handle, void *stream) {
    require(call, group_depth == 0, "within a group");
    pthread_mutex_lock(&lock);
    struct op op = prepare(call, handle, stream, type);
    size_t bytes = count * width(type);
    require(call, count > 0 && root >= 0 && root < op.comm->world, "nothing, or no such root");
    range(call, MEMORY, op.comm->card, from, bytes);
    range(call, MEMORY, op.comm->card, to, kind == ALL_GATHER ? bytes * op.comm->world : bytes);
    op.collective = kind, op.from = from, op.to = to, op.count = count, op.root = root, op.bytes = bytes;
    op.serial = ++op.comm->sequence;
    op.hangs = means("STUB_HANG", call), op.wrong = means("STUB_WRONG", call);
    if (means("STUB_ASYNC", call)) op.comm->async_error = 6;
    queue(find(STREAM, stream), op);
    pthread_mutex_unlock(&lock);
    return 0;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream) {
    BEGIN_NCCL(ncclAllReduce);
    require(call, op == 0, "not a sum");
    return collective(call, ALL_REDUCE, from, to, count, type, 0, comm, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream) {
    BEGIN_NCCL(ncclBroadcast);
    return collective(call, BROADCAST, from, to, count, type, root, comm, stream);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, void *comm, void *stream) {
    BEGIN_NCCL(ncclAllGather);
    return collective(call, ALL_GATHER, from, to, count, type, 0, comm, stream);
}

int ncclGroupStart(void) {
    BEGIN_NCCL(ncclGroupStart);
    require(call, group_depth++ == 0, "a group within a group");
    group_count = group_failed = 0;
    return 0;
}

static int pass(const char *call, void *buffer, size_t count, int type, int peer, int sends, void *handle, void *stream) {
    require(call, group_depth == 1, "not within a group");
    pthread_mutex_lock(&lock);
    struct op op = prepare(call, handle, stream, type);
    require(call, count > 0 && peer >= 0 && peer < op.comm->world, "nothing, or no such rank");
    range(call, MEMORY, op.comm->card, buffer, count * width(type));
    op.to = buffer, op.count = count, op.hangs = means("STUB_HANG", call);
    group_stream = find(STREAM, stream);
    group_peer[group_count] = peer, group_sends[group_count] = sends;
    group[group_count++] = op;
    pthread_mutex_unlock(&lock);
    return 0;
}

int ncclSend(const void *from, size_t count, int type, int peer, void *comm, void *stream) {
    BEGIN_NCCL(ncclSend);
    return pass(call, (void *)from, count, type, peer, 1, comm, stream);
}

int ncclRecv(void *to, size_t count, int type, int peer, void *comm, void *stream) {
    BEGIN_NCCL(ncclRecv);
    return pass(call, to, count, type, peer, 0, comm, stream);
}

/* The group is an exchange of slices: a send to and a receive from each rank, in order. */
int ncclGroupEnd(void) {
    BEGIN_NCCL(ncclGroupEnd);
    require(call, --group_depth == 0, "no group has begun");
    if (group_failed) return 5;
    pthread_mutex_lock(&lock);
    struct op op = group[0];
    int world = op.comm->world;
    size_t bytes = op.count * width(op.type);
    require(call, group_count == 2 * world, "not a send and a receive for each rank");
    char *from = group[0].to, *to = group[1].to;
    for (int i = 0; i < group_count; i++) {
        require(call, group_peer[i] == i / 2 && group_sends[i] == (i % 2 == 0), "not each rank in order");
        require(call, group[i].comm == op.comm && group[i].count == op.count && group[i].type == op.type,
                "slices that differ");
        require(call, group[i].to == (i % 2 ? to : from) + i / 2 * bytes, "slices that do not follow each other");
        op.hangs |= group[i].hangs;
    }
    require(call, from + bytes * world <= to || to + bytes * world <= from, "sent and received values overlap");
    op.collective = EXCHANGE, op.from = from, op.to = to, op.bytes = bytes * world;
    op.serial = ++op.comm->sequence;
    if (means("STUB_ASYNC", call)) op.comm->async_error = 6;
    queue(group_stream, op);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* For the test itself: values on a card, whose copy is queued on a stream of their own. */

static void enter(int card) {
#ifdef AMD
    hipSetDevice(card);
#else
    cuCtxPushCurrent_v2(&contexts[card]);
#endif
}

static void leave(void) {
#ifdef AMD
    hip_set = 0;
#else
    void *context;
    cuCtxPopCurrent_v2(&context);
#endif
}

struct values { void *memory, *pinned, *stream; };

void stub_values(int card, const float *own, size_t count, struct values *values) {
    enter(card);
    make("stub_values", MEMORY, count * 4, &values->memory);
    make("stub_values", PINNED, count * 4, &values->pinned);
    make("stub_values", STREAM, 1, &values->stream);
    memcpy(values->pinned, own, count * 4);
    copy("stub_values", UP, values->memory, values->pinned, count * 4, values->stream);
    leave();
}

void stub_take(int card, float *own, size_t count, struct values *values) {
    enter(card);
    pthread_mutex_lock(&lock);
    memcpy(own, values->memory, count * 4);
    pthread_mutex_unlock(&lock);
    release("stub_take", STREAM, values->stream);
    release("stub_take", MEMORY, values->memory);
    release("stub_take", PINNED, values->pinned);
    leave();
}

__attribute__((destructor)) static void left(void) {
    static const char *names[] = {"left memory", "left pinned", "left streams", "left events"};
    int counts[KINDS] = {0}, alive_comms = 0, contexts_left = 0;
    for (int i = 0; i < OBJECTS; i++) counts[objects[i].kind] += objects[i].used;
    for (int i = 0; i < KINDS; i++) write_log(names[i], counts[i]);
    for (int i = 0; i < comm_count; i++) alive_comms += comms[i].alive;
    for (int i = 0; i < CARDS; i++) contexts_left += retained[i];
    write_log("left communicators", alive_comms);
    write_log("left contexts", contexts_left);
}
