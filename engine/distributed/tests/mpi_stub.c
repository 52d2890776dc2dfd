/* An MPI library of one process, for tests: rank 0 of STUB_SIZE ranks, whose others do and send
 * what rank 0 does and sends. It checks the arguments of each call, and ends the process where they
 * are wrong. Data moves when a request is completed, which its third test does; a call that
 * STUB_STALL names is never complete. With STUB_NEVER_ENDS, MPI_Finalize does not return. STUB_LOG is a
 * file to which calls are written.
 *
 * Built with OPEN_MPI, MPICH or STANDARD defined, for one of the three interfaces. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(OPEN_MPI)
typedef void *Handle;
char ompi_mpi_comm_world, ompi_mpi_byte, ompi_mpi_float, ompi_mpi_op_sum, ompi_mpi_errors_return;
#define WORLD ((Handle)&ompi_mpi_comm_world)
#define BYTE ((Handle)&ompi_mpi_byte)
#define FLOAT ((Handle)&ompi_mpi_float)
#define SUM ((Handle)&ompi_mpi_op_sum)
#define ERRORS_RETURN ((Handle)&ompi_mpi_errors_return)
#define STATUS_IGNORE ((void *)0)
#define ANY_SOURCE (-1)
#define FUNNELED 1
#elif defined(MPICH)
typedef int Handle;
#define WORLD 0x44000000
#define BYTE 0x4c00010d
#define FLOAT 0x4c00040a
#define SUM 0x58000003
#define ERRORS_RETURN 0x54000001
#define STATUS_IGNORE ((void *)1)
#define ANY_SOURCE (-2)
#define FUNNELED 1
#elif defined(STANDARD)
typedef void *Handle;
#define WORLD ((Handle)0x101)
#define BYTE ((Handle)0x247)
#define FLOAT ((Handle)0x210)
#define SUM ((Handle)0x21)
#define ERRORS_RETURN ((Handle)0x142)
#define STATUS_IGNORE ((void *)0)
#define ANY_SOURCE (-1)
#define FUNNELED 1024
#endif

#define DUPLICATES 5
#define REQUESTS 64
#define RANKS 8

enum kind { ALL_REDUCE, ALL_TO_ALL, GATHER, NOTHING };

struct request {
    int used, tests, stalls;
    enum kind kind;
    const char *send;
    char *receive;
    int count;
    const int *counts, *starts, *sent_starts;
};

static struct request requests[REQUESTS];
static int duplicates, initialized, finalized, returns_errors;
static pthread_t owner;

static int size(void) {
    const char *text = getenv("STUB_SIZE");
    return text ? atoi(text) : 1;
}

static void wrong(const char *call, const char *what) {
    fprintf(stderr, "stub: %s: %s\n", call, what);
    _Exit(86);
}

static void require(const char *call, int holds, const char *what) {
    if (!holds) wrong(call, what);
}

static void write_log(const char *line) {
    const char *path = getenv("STUB_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", line);
        fclose(file);
    }
}

static Handle duplicate(int number) {
#if defined(MPICH)
    return (Handle)(0x84000001 + number);
#else
    static char names[DUPLICATES];
    return (Handle)&names[number];
#endif
}

/* The communicator's number; calls other than those that set up take a duplicate only. */
static int communicator(const char *call, Handle comm) {
    for (int number = 0; number < duplicates; number++)
        if (comm == duplicate(number)) return number;
    wrong(call, "not a duplicate of the world");
    return -1;
}

static void usable(const char *call) {
    require(call, initialized && !finalized, "not between MPI_Init_thread and MPI_Finalize");
    require(call, pthread_equal(pthread_self(), owner), "not by the thread that initialized MPI");
}

static void buffer(const char *call, const void *address) {
    uintptr_t value = (uintptr_t)address;
    require(call, value > 4096 && value < UINTPTR_MAX - 4096, "a buffer that is a constant of MPI or null");
}

static Handle handle_of(int number) {
#if defined(MPICH)
    return (Handle)(0x98000000 + number);
#else
    return (Handle)&requests[number];
#endif
}

static struct request *request_of(Handle handle) {
    for (int number = 0; number < REQUESTS; number++)
        if (handle == handle_of(number) && requests[number].used) return &requests[number];
    wrong("MPI_Test", "not a request that was started");
    return NULL;
}

static struct request *begin(const char *call, Handle comm, Handle *out, enum kind kind) {
    char line[64];
    usable(call);
    require(call, returns_errors, "errors are not returned");
    snprintf(line, sizeof line, "%s %d", call, communicator(call, comm));
    write_log(line);
    for (int number = 0; number < REQUESTS; number++) {
        struct request *request = &requests[number];
        if (request->used) continue;
        const char *stalls = getenv("STUB_STALL");
        memset(request, 0, sizeof *request);
        request->used = 1;
        request->kind = kind;
        request->stalls = stalls && strcmp(stalls, call) == 0;
        *out = handle_of(number);
        return request;
    }
    wrong(call, "too many requests");
    return NULL;
}

static void blocks(const char *call, const int *counts, const int *starts) {
    int next = 0;
    for (int rank = 0; rank < size(); rank++) {
        require(call, counts[rank] >= 0 && starts[rank] == next, "blocks that do not follow each other");
        next += counts[rank];
    }
}

int MPI_Init_thread(int *count, char ***arguments, int required, int *provided) {
    require("MPI_Init_thread", !initialized, "called before");
    require("MPI_Init_thread", !count && !arguments && required == FUNNELED, "arguments");
    initialized = 1;
    owner = pthread_self();
    *provided = FUNNELED;
    write_log("MPI_Init_thread");
    return 0;
}

int MPI_Finalize(void) {
    usable("MPI_Finalize");
    for (int number = 0; number < REQUESTS; number++)
        require("MPI_Finalize", !requests[number].used, "a request is not complete");
    finalized = 1;
    write_log("MPI_Finalize");
    while (getenv("STUB_NEVER_ENDS")) sleep(60);
    return 0;
}

int MPI_Abort(Handle comm, int code) {
    usable("MPI_Abort");
    require("MPI_Abort", comm == WORLD, "not the world");
    write_log("MPI_Abort");
    _Exit(code);
}

int MPI_Comm_set_errhandler(Handle comm, Handle handler) {
    usable("MPI_Comm_set_errhandler");
    require("MPI_Comm_set_errhandler", comm == WORLD && handler == ERRORS_RETURN, "arguments");
    returns_errors = 1;
    return 0;
}

int MPI_Comm_rank(Handle comm, int *rank) {
    usable("MPI_Comm_rank");
    require("MPI_Comm_rank", comm == WORLD, "not the world");
    *rank = 0;
    return 0;
}

int MPI_Comm_size(Handle comm, int *out) {
    usable("MPI_Comm_size");
    require("MPI_Comm_size", comm == WORLD, "not the world");
    *out = size();
    return 0;
}

int MPI_Comm_dup(Handle comm, Handle *out) {
    usable("MPI_Comm_dup");
    require("MPI_Comm_dup", comm == WORLD && duplicates < DUPLICATES, "arguments");
    *out = duplicate(duplicates++);
    return 0;
}

int MPI_Get_processor_name(char *name, int *length) {
    usable("MPI_Get_processor_name");
    *length = sprintf(name, "stub-host");
    return 0;
}

int MPI_Get_library_version(char *version, int *length) {
    *length = sprintf(version, "Stub of MPI v1, built for tests\nsecond line") + 1;
    return 0;
}

int MPI_Error_string(int code, char *text, int *length) {
    *length = sprintf(text, "error %d of the stub", code);
    return 0;
}

int MPI_Iallreduce(const void *send, void *receive, int count, Handle type, Handle op, Handle comm, Handle *out) {
    const char *call = "MPI_Iallreduce";
    const char *fails = getenv("STUB_FAIL");
    if (fails && strcmp(fails, call) == 0) return 15;
    require(call, type == FLOAT && op == SUM && count >= 0 && send != receive, "arguments");
    buffer(call, send);
    buffer(call, receive);
    struct request *request = begin(call, comm, out, ALL_REDUCE);
    request->send = send;
    request->receive = receive;
    request->count = count;
    return 0;
}

int MPI_Ialltoallv(const void *send, const int *sent, const int *sent_starts, Handle send_type, void *receive,
                   const int *counts, const int *starts, Handle type, Handle comm, Handle *out) {
    const char *call = "MPI_Ialltoallv";
    require(call, send_type == BYTE && type == BYTE && send != receive, "arguments");
    buffer(call, send);
    buffer(call, receive);
    blocks(call, sent, sent_starts);
    blocks(call, counts, starts);
    for (int rank = 0; rank < size(); rank++) require(call, counts[rank] == sent[0], "counts of the own block");
    struct request *request = begin(call, comm, out, ALL_TO_ALL);
    request->send = send;
    request->receive = receive;
    request->counts = counts;
    request->starts = starts;
    request->sent_starts = sent_starts;
    return 0;
}

static int gather(const char *call, const void *send, int count, Handle send_type, void *receive, const int *counts,
                  const int *starts, Handle type, Handle comm, Handle *out) {
    require(call, send_type == BYTE && type == BYTE && count == counts[0] && send != receive, "arguments");
    buffer(call, send);
    buffer(call, receive);
    blocks(call, counts, starts);
    struct request *request = begin(call, comm, out, GATHER);
    request->send = send;
    request->receive = receive;
    request->counts = counts;
    request->starts = starts;
    return 0;
}

int MPI_Iallgatherv(const void *send, int count, Handle send_type, void *receive, const int *counts,
                    const int *starts, Handle type, Handle comm, Handle *out) {
    return gather("MPI_Iallgatherv", send, count, send_type, receive, counts, starts, type, comm, out);
}

int MPI_Igatherv(const void *send, int count, Handle send_type, void *receive, const int *counts, const int *starts,
                 Handle type, int root, Handle comm, Handle *out) {
    require("MPI_Igatherv", root == 0, "root");
    return gather("MPI_Igatherv", send, count, send_type, receive, counts, starts, type, comm, out);
}

int MPI_Ibcast(void *bytes, int count, Handle type, int root, Handle comm, Handle *out) {
    require("MPI_Ibcast", type == BYTE && count >= 0 && root == 0, "arguments");
    buffer("MPI_Ibcast", bytes);
    begin("MPI_Ibcast", comm, out, NOTHING);
    return 0;
}

int MPI_Ibarrier(Handle comm, Handle *out) {
    begin("MPI_Ibarrier", comm, out, NOTHING);
    return 0;
}

int MPI_Isend(const void *message, int count, Handle type, int to, int tag, Handle comm, Handle *out) {
    const char *call = "MPI_Isend";
    require(call, type == BYTE && count > 0 && to > 0 && to < size() && tag == 4711, "arguments");
    require(call, communicator(call, comm) == DUPLICATES - 1, "not the communicator of messages");
    buffer(call, message);
    begin(call, comm, out, NOTHING);
    return 0;
}

/* STUB_MESSAGE is a message of rank 1 that has arrived. */
int MPI_Iprobe(int source, int tag, Handle comm, int *arrived, void *status) {
    const char *call = "MPI_Iprobe";
    usable(call);
    require(call, source == ANY_SOURCE && tag == 4711 && status == STATUS_IGNORE, "arguments");
    require(call, communicator(call, comm) == DUPLICATES - 1, "not the communicator of messages");
    *arrived = getenv("STUB_MESSAGE") != NULL;
    return 0;
}

int MPI_Recv(void *message, int room, Handle type, int source, int tag, Handle comm, void *status) {
    const char *call = "MPI_Recv";
    usable(call);
    require(call, type == BYTE && source == ANY_SOURCE && tag == 4711 && status == STATUS_IGNORE, "arguments");
    communicator(call, comm);
    const char *text = getenv("STUB_MESSAGE");
    require(call, text && strlen(text) < (size_t)room, "room");
    memcpy(message, text, strlen(text));
    unsetenv("STUB_MESSAGE");
    return 0;
}

int MPI_Test(Handle *handle, int *complete, void *status) {
    usable("MPI_Test");
    require("MPI_Test", status == STATUS_IGNORE, "status");
    struct request *request = request_of(*handle);
    *complete = 0;
    if (request->stalls || ++request->tests < 3) return 0;
    if (request->kind == ALL_REDUCE)
        for (int i = 0; i < request->count; i++)
            ((float *)request->receive)[i] = ((const float *)request->send)[i] * (float)size();
    if (request->kind == ALL_TO_ALL || request->kind == GATHER)
        for (int rank = 0; rank < size(); rank++)
            memcpy(request->receive + request->starts[rank], request->send, (size_t)request->counts[rank]);
    request->used = 0;
    *complete = 1;
    return 0;
}
