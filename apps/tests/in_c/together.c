/* Two plugins of one source: `finder` fires an event, attaches and sets a timer; `listener` hears it. */
#include "hearth_plugin.h"

#include <stdio.h>
#include <string.h>

#ifdef LISTENER
HEARTH_PLUGIN("listener", "0.1.0", "hears another plugin", HEARTH_DECLARED);
#else
HEARTH_PLUGIN("finder", "0.1.0", "finds something", HEARTH_DECLARED | HEARTH_FILES);
#endif

static char self_data;

static int32_t create(const hearth_setup *setup, void **self) {
    hearth_when when = {sizeof(hearth_when), "epoch_completed", 0, 0, 0, NULL, 0, 0};
    *self = &self_data;
#ifdef LISTENER
    when.event = "finder.found";
    when.custom = 1;
#else
    if (setup->fires(setup, "finder.found")) return HEARTH_FAILED;
#endif
    return setup->listen(setup, &when);
}

static int32_t handle(void *self, const hearth_event *event, const hearth_host *host) {
    char line[1 << 16];
    (void)self;
#ifdef LISTENER
    const char *info = host->run_info(host);
    if (!info) return host->fail(host, host->error(host));
    snprintf(line, sizeof(line), "heard %s in epoch %d: %s", event->name, (int)event->epoch, info);
    host->log(host, HEARTH_NOTICE, line);
#else
    static const unsigned char values[] = {0, 128, 255, 0, 128, 255};
    static const size_t shape[] = {2, 3};
    hearth_tensor picture = {sizeof(hearth_tensor), HEARTH_U8, 2, shape, values, sizeof(values)};
    if (!strcmp(event->name, "timer")) {
        snprintf(line, sizeof(line), "the timer rings in epoch %d", (int)event->epoch);
        host->log(host, HEARTH_NOTICE, line);
        return HEARTH_OK;
    }
    if (event->epoch == 1 && host->call_after(host, 3600.0)) return host->fail(host, host->error(host));
    if (host->attach_image(host, "slice", &picture)) return host->fail(host, host->error(host));
    if (host->attach_text(host, "notes", "# found it")) return host->fail(host, host->error(host));
    if (host->fire(host, "finder.found")) return host->fail(host, host->error(host));
#endif
    return HEARTH_OK;
}

const hearth_plugin *hearth_plugin_main(const hearth_call *call) {
    static const hearth_plugin plugin = {.size = sizeof(hearth_plugin), .create = create, .handle = handle};
    (void)call;
    return &plugin;
}
