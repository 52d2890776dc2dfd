/*
 * The C interface of Hearth plugins, version 1.
 *
 * A plugin is a shared library that exports two names: `hearth_plugin_identity`, a record that is
 * read from the file before any code runs, and `hearth_plugin_main`, which returns a table of
 * functions. Everything that crosses is a pointer to a table whose first member is its size: a later
 * version adds members at the end, so a plugin of version 1 works with every later program.
 *
 * Rules for all functions:
 *   - Text is UTF-8 and ends with a zero byte. Text and tensors of the host are valid until the next
 *     call of the host, and at most until the callback returns.
 *   - Functions that return `int32_t` return HEARTH_OK or HEARTH_FAILED. Of the host's,
 *     `host->error(host)` says why. Of the plugin's, `fail` says why: `return host->fail(host, "...")`.
 *   - A handler's callbacks are called one at a time, possibly from different threads. A table is
 *     valid during the callback that receives it, and in its thread.
 *   - No exception and no longjmp may leave a callback.
 *
 * `hearth plugin new NAME --template c` writes a plugin, `hearth plugin check FILE` tries it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HEARTH_PLUGIN_H
#define HEARTH_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this file. */
#define HEARTH_ABI 1

#define HEARTH_OK 0
#define HEARTH_FAILED 1

/* Levels of `log`. A notice is shown in every run, information with `-v`. */
#define HEARTH_DEBUG 0
#define HEARTH_INFO 1
#define HEARTH_WARN 2
#define HEARTH_ERROR 3
#define HEARTH_NOTICE 4

/* Types of elements. */
#define HEARTH_F32 0
#define HEARTH_F64 1
#define HEARTH_I64 2
#define HEARTH_U8 3

/* The effect of a handler's error on the run: `on_error` of `hearth_setup`. */
#define HEARTH_STOP 0
#define HEARTH_DISABLE 1
#define HEARTH_LOG 2

/* The processes of a distributed run in which the handler acts: `ranks` of `hearth_setup`. */
#define HEARTH_ALL_RANKS 0
#define HEARTH_FIRST_RANK 1

/* Kinds of names: `names` of `hearth_host`. */
#define HEARTH_OUTPUTS 0
#define HEARTH_TENSORS 1
#define HEARTH_NUMBERS 2
#define HEARTH_TEXTS 3
#define HEARTH_ENGINES 4

/* Values of layers: `layer_statistics` of `hearth_host`. */
#define HEARTH_WEIGHTS 0
#define HEARTH_GRADIENTS 1

/* The table of a callback that has no other table. */
typedef struct hearth_call hearth_call;
struct hearth_call {
    size_t size;
    uint32_t abi; /* the newest version that the host knows */
    void *context;
    const char *library; /* the path of the plugin's file */
    /* Says why the callback fails; returns HEARTH_FAILED. */
    int32_t (*fail)(const hearth_call *call, const char *message);
    /* Appends bytes to the callback's result. They are copied. */
    void (*give)(const hearth_call *call, const void *bytes, size_t count);
};

/* An event, and a filter on its occurrences. 0 disables a condition. */
typedef struct hearth_when {
    size_t size;
    const char *event; /* epoch_completed, iteration_completed, ... */
    uint64_t every;    /* each time the event's counter is a multiple of it */
    uint64_t after;    /* above this count */
    uint64_t before;   /* below this count */
    const uint64_t *once; /* at these counts */
    size_t once_count;
    int32_t custom; /* 1: an event of a plugin's own; otherwise an unknown name is an error */
} hearth_when;

/* The table for creating a handler. */
typedef struct hearth_setup hearth_setup;
struct hearth_setup {
    size_t size;
    uint32_t abi;
    void *context;
    const char *options; /* a JSON object of all options; each is checked, and defaults are filled in */
    /* States why there is no handler, and the option at fault, or NULL. Returns HEARTH_FAILED. */
    int32_t (*fail)(const hearth_setup *setup, const char *option, const char *message);
    /* One option. HEARTH_FAILED, or NULL, if it is not set or has another type. */
    int32_t (*integer)(const hearth_setup *setup, const char *option, int64_t *value);
    int32_t (*number)(const hearth_setup *setup, const char *option, double *value);
    int32_t (*boolean)(const hearth_setup *setup, const char *option, int32_t *value);
    const char *(*text)(const hearth_setup *setup, const char *option);
    /* Subscribes to an event. */
    int32_t (*listen)(const hearth_setup *setup, const hearth_when *when);
    void (*on_error)(const hearth_setup *setup, int32_t policy);
    void (*ranks)(const hearth_setup *setup, int32_t ranks);
};

/* An event that happens, and the state of the run. */
typedef struct hearth_event {
    size_t size;
    uint32_t id;
    uint32_t rank;
    uint32_t world_size;
    uint32_t finished;    /* 1: the run is over */
    const char *name;     /* epoch_completed */
    const char *engine;   /* trainer, validation, ... */
    uint64_t epoch;       /* from 1 */
    uint64_t iteration;   /* of the run, from 1 */
    uint64_t epoch_iteration;
    uint64_t max_epochs;
    uint64_t epoch_length; /* 0: not known */
    uint64_t seed;
    uint64_t best_epoch;  /* 0: none */
    double best_metric;   /* NaN: none */
    const char *key_metric; /* NULL: none */
    const char *exception;  /* NULL: none */
} hearth_event;

/* A tensor in host memory: row-major, native byte order. */
typedef struct hearth_tensor {
    size_t size;
    int32_t dtype;
    uint32_t dimensions;
    const size_t *shape;
    const void *data;
    size_t bytes;
} hearth_tensor;

/* The requests to the trainer or evaluator that runs. JSON has `null` for NaN. */
typedef struct hearth_host hearth_host;
struct hearth_host {
    size_t size;
    uint32_t abi;
    void *context;
    /* Says why the callback fails; returns HEARTH_FAILED. */
    int32_t (*fail)(const hearth_host *host, const char *message);
    /* The reason why the last call of the host failed. */
    const char *(*error)(const hearth_host *host);
    void (*log)(const hearth_host *host, int32_t level, const char *message);
    /* The end of the run, of the epoch; a pause. Carried out after the event. */
    void (*terminate)(const hearth_host *host, const char *why);
    void (*terminate_epoch)(const hearth_host *host, const char *why);
    void (*interrupt)(const hearth_host *host, const char *why);
    /* The newest value of a metric. */
    int32_t (*metric)(const hearth_host *host, const char *name, double *value);
    void (*set_metric)(const hearth_host *host, const char *name, double value);
    /* Publishes a number for plots. */
    void (*scalar)(const hearth_host *host, const char *tag, double value);
    /* The whole state as a JSON object: metrics, times, scalars, counters. */
    const char *(*state)(const hearth_host *host);
    /* A number of the iteration: `loss`. */
    int32_t (*output)(const hearth_host *host, const char *name, double *value);
    int32_t (*learning_rate)(const hearth_host *host, double *value);
    int32_t (*set_learning_rate)(const hearth_host *host, double value);
    /* Runs another engine, `validation`. Its metrics as a JSON object, NULL on failure. */
    const char *(*run)(const hearth_host *host, const char *engine);
    /* Requests a checkpoint in a folder; the newest `keep_last` with the tag are kept, 0: all. */
    int32_t (*save_checkpoint)(const hearth_host *host, const char *folder, const char *tag, uint64_t keep_last);
    int32_t (*load_checkpoint)(const hearth_host *host, const char *folder);
    /* JSON lists; NULL on failure: names of a kind; names of the batch's cases; numbers of each case
       (a list of lists); text of each case. */
    const char *(*names)(const hearth_host *host, int32_t kind);
    const char *(*cases)(const hearth_host *host);
    const char *(*numbers)(const hearth_host *host, const char *name);
    const char *(*texts)(const hearth_host *host, const char *name);
    /* A tensor of the iteration: `image`, `label`, `pred`; of the network: `weights.NAME`, and at
       backward_completed `gradients.NAME`. Set `size` of `tensor` before. */
    int32_t (*tensor)(const hearth_host *host, const char *name, hearth_tensor *tensor);
    /* Replaces or adds a tensor of the iteration. `weights.NAME` replaces a parameter of the network in
       training, at backward_completed `gradients.NAME` the gradient of the next step: f32, in the shape
       that `tensor` has. */
    int32_t (*put_tensor)(const hearth_host *host, const char *name, const hearth_tensor *tensor);
    /* Combines tensors on the device. `how`: {"mean": {"weights": null}}, {"vote": {"num_classes": 2}}. */
    int32_t (*combine)(const hearth_host *host, const char *const *inputs, size_t count, const char *how,
                       const char *output);
    /* A JSON list of {name, count, mean, std, min, max, non_finite}; NULL on failure. */
    const char *(*layer_statistics)(const hearth_host *host, int32_t of);
    /* Keeps bytes under a key of this handler alone. Checkpoints store them. */
    int32_t (*remember)(const hearth_host *host, const char *key, const void *bytes, size_t count);
    /* The bytes kept under a key. HEARTH_FAILED if there are none. */
    int32_t (*recall)(const hearth_host *host, const char *key, const void **bytes, size_t *count);
    /* Adds a file, or a picture as a PNG file, to the run's folder: attachments/HANDLER/NAME. A picture is
       [H, W] or [H, W, 3]; u8, or f32 from 0 to 1. */
    int32_t (*attach_file)(const hearth_host *host, const char *name, const void *bytes, size_t count);
    int32_t (*attach_image)(const hearth_host *host, const char *name, const hearth_tensor *image);
};

/* Numbers in host memory, row-major: an image [C, X, Y, Z] and its position. */
typedef struct hearth_array {
    size_t size;
    uint32_t dimensions;
    const size_t *shape;
    const float *values;
    double affine[16]; /* voxel index to mm, RAS+, row by row */
} hearth_array;

/* The input of a component. */
typedef struct hearth_work hearth_work;
struct hearth_work {
    size_t size;
    uint32_t abi;
    void *context;
    const char *text;           /* the path, for a reader */
    const hearth_array *inputs; /* transform: the image; metric: prediction and label; reader: none */
    size_t count;
    /* Says why it fails; returns HEARTH_FAILED. */
    int32_t (*fail)(const hearth_work *work, const char *message);
    /* Returns the result, which is copied. Transform: the image on the same grid; metric: a row [N];
       reader: the image [C, X, Y, Z]. */
    int32_t (*give)(const hearth_work *work, const hearth_array *result);
};

/* The functions of a plugin. `options`, `destroy`, `save` and `load` may be NULL. A plugin has a handler
   (`create`, `handle`), components that recipes name as PLUGIN.NAME (`components`, `make`, `compute`), or
   both. */
typedef struct hearth_plugin {
    size_t size; /* sizeof(hearth_plugin) */
    /* Returns a JSON list of options: HEARTH_OPTION. NULL: no options. */
    int32_t (*options)(const hearth_call *call);
    /* Creates a handler: sets `*self`, and subscribes to events. On failure, `destroy` gets the value of
       `*self`, unless it is NULL. */
    int32_t (*create)(const hearth_setup *setup, void **self);
    void (*destroy)(void *self);
    /* Handles an event that it subscribed to. */
    int32_t (*handle)(void *self, const hearth_event *event, const hearth_host *host);
    /* Return the bytes for checkpoints; restore them. */
    int32_t (*save)(void *self, const hearth_call *call);
    int32_t (*load)(void *self, const void *bytes, size_t count, const hearth_call *call);
    /* Returns a JSON list of components: {"kind": "transform", "name": "Blur", "help": "...", "options": [...]},
       where `kind` is transform, metric or reader, and `options` as above. */
    int32_t (*components)(const hearth_call *call);
    /* Creates a component. On failure, `release` gets the value of `*component`, unless NULL. */
    int32_t (*make)(const hearth_setup *setup, const char *name, void **component);
    /* Computes the result, possibly in several threads at once. */
    int32_t (*compute)(void *component, const hearth_work *work);
    void (*release)(void *component);
} hearth_plugin;

/* One option in the list of `options`. `kind`: integer, number, true or false, text, path, list of ...
   `fallback` is its default as a recipe writes it, with quotes if it is text: HEARTH_OPTION("file",
   "text", "'run.txt'", "..."). An option that is required has HEARTH_REQUIRED_OPTION. */
#define HEARTH_OPTION(name, kind, fallback, help)                                                              \
    "{\"name\":\"" name "\",\"kind\":\"" kind "\",\"default\":\"" fallback "\",\"help\":\"" help "\"}"
#define HEARTH_REQUIRED_OPTION(name, kind, help)                                                               \
    "{\"name\":\"" name "\",\"kind\":\"" kind "\",\"required\":true,\"help\":\"" help "\"}"

/* Whether a table of the host has a member; older programs lack newer members. */
#define HEARTH_HAS(table, member)                                                                              \
    ((table)->size >= (size_t)((const char *)&(table)->member - (const char *)(table)) + sizeof((table)->member))

/* The record that is read from the file. Its layout is frozen. */
typedef struct hearth_identity {
    char magic[16];
    uint32_t size;
    uint32_t abi;
    uint64_t reserved;
    uint32_t flags;
    uint32_t reserved2;
    char name[64];
    char version[32];
    char description[192];
    char reserved3[128];
    char compiler[64];
    char reserved4[72];
} hearth_identity;

#if defined(_WIN32)
#define HEARTH_EXPORT __declspec(dllexport)
#define HEARTH_RECORD __declspec(align(16))
#define HEARTH_COMPILER "MSVC"
#else
#define HEARTH_EXPORT __attribute__((visibility("default")))
#define HEARTH_RECORD __attribute__((aligned(16)))
#define HEARTH_COMPILER "C compiler " __VERSION__
#endif

extern HEARTH_EXPORT HEARTH_RECORD const hearth_identity hearth_plugin_identity;
/* Returns the plugin's functions, which must stay valid; NULL after `fail`. */
HEARTH_EXPORT const hearth_plugin *hearth_plugin_main(const hearth_call *call);

/* The capabilities that a plugin declares: `hearth plugin info` prints them. */
#define HEARTH_DECLARED 2 /* declared: capabilities not listed are not used */
#define HEARTH_NETWORK 4  /* communicates with other machines */
#define HEARTH_FILES 8    /* reads or writes files */
#define HEARTH_PROGRAMS 16 /* starts other programs */
#define HEARTH_CHANGES_RUN 32 /* changes the run: its end, learning rate, tensors */
#define HEARTH_COMPONENTS 64 /* has components that recipes name */

/* Names the plugin; once in a library, outside of functions. `needs` is HEARTH_DECLARED and others, or 0
   where nothing is said. */
#define HEARTH_PLUGIN(name, version, description, needs)                                                       \
    HEARTH_RECORD const hearth_identity hearth_plugin_identity = {                                             \
        "hearth-plugin-c", sizeof(hearth_identity), HEARTH_ABI, 0, (needs), 0, name, version, description,     \
        {0}, HEARTH_COMPILER, {0}}

#ifdef __cplusplus
}
#endif
#endif
