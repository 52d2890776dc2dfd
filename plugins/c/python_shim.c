/*
 * Hosts a Hearth plugin in Python: NAME.py next to this library, read by hearth_plugin.py.
 *
 * libpython is found when the plugin is loaded: HEARTH_LIBPYTHON, or the newest that the system's loader
 * finds. PYTHONPATH, PYTHONHOME and VIRTUAL_ENV mean what they mean to `python3`.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "hearth_plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __APPLE__
#define LIBPYTHON "libpython3.%d.dylib"
#else
#define LIBPYTHON "libpython3.%d.so.1.0"
#endif
#define NEWEST 30
#define OLDEST 8

/* {{name}}, {{description}} */
HEARTH_PLUGIN("{{name}}", "0.1.0", "{{description}}", HEARTH_DECLARED);

/* Filled in by hearth_plugin.py, with functions that call Python. */
static hearth_plugin plugin = {sizeof(hearth_plugin), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

static void *open_python(void) {
    const char *named = getenv("HEARTH_LIBPYTHON");
    char name[32];
    int minor;
    void *library;
    /* Its symbols are global, because extension modules (numpy) look for them. */
    if (named) return dlopen(named, RTLD_NOW | RTLD_GLOBAL);
    for (minor = NEWEST; minor >= OLDEST; minor--) {
        snprintf(name, sizeof(name), LIBPYTHON, minor);
        library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
        if (library) return library;
    }
    return NULL;
}

const hearth_plugin *hearth_plugin_main(const hearth_call *call) {
    char code[512];
    void *python = open_python();
    int (*is_initialized)(void), (*run)(const char *), (*ensure)(void);
    void (*initialize)(int), (*release)(int), *(*save_thread)(void);
    int gil, failed;
    if (!python) {
        call->fail(call, "no libpython is found: install it (Debian, Ubuntu: apt install libpython3-dev), or set "
                         "HEARTH_LIBPYTHON to the path of libpython3.N.so");
        return NULL;
    }
    *(void **)&is_initialized = dlsym(python, "Py_IsInitialized");
    *(void **)&initialize = dlsym(python, "Py_InitializeEx");
    *(void **)&save_thread = dlsym(python, "PyEval_SaveThread");
    *(void **)&ensure = dlsym(python, "PyGILState_Ensure");
    *(void **)&release = dlsym(python, "PyGILState_Release");
    *(void **)&run = dlsym(python, "PyRun_SimpleString");
    if (!is_initialized || !initialize || !save_thread || !ensure || !release || !run) {
        call->fail(call, "the libpython that was found lacks functions of CPython: set HEARTH_LIBPYTHON to another");
        return NULL;
    }
    if (!is_initialized()) {
        initialize(0);
        save_thread(); /* no thread holds the interpreter; ctypes takes it for each callback */
    }
    snprintf(code, sizeof(code),
             "import ctypes, os, sys\n"
             "_library = os.fsdecode(ctypes.string_at(%zu))\n"
             "sys.path.insert(0, os.path.dirname(os.path.abspath(_library)))\n"
             "import hearth_plugin\n"
             "hearth_plugin._open(%zu, %zu, _library, '{{crate}}')\n",
             (size_t)call->library, (size_t)&plugin, (size_t)call);
    gil = ensure();
    failed = run(code);
    release(gil);
    if (failed) {
        call->fail(call, "hearth_plugin.py is not beside the library, or fails: its traceback is above");
        return NULL;
    }
    return plugin.create || plugin.make ? &plugin : NULL;
}
