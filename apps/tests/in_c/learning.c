/* A loss, a schedule and an inferer in C, which compute what built-in ones do. */
#include "hearth_plugin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

HEARTH_PLUGIN("learning", "0.1.0", "learns and infers", HEARTH_DECLARED | HEARTH_COMPONENTS);

typedef struct part {
    char kind;      /* E: Entropy, P: Poly, W: Whole */
    double broken;  /* Entropy: the call from which gradients are not finite; Poly: the step without a rate */
    double power;
    long calls;
} part;

static int32_t components(const hearth_call *call) {
    const char *list =
        "[{\"kind\": \"loss\", \"name\": \"Entropy\", \"help\": \"Cross-entropy of a softmax.\", \"options\": ["
        HEARTH_OPTION("broken", "number", "0", "The call that fails.") "]},"
        "{\"kind\": \"schedule\", \"name\": \"Poly\", \"help\": \"A polynomial.\", \"options\": ["
        HEARTH_OPTION("power", "number", "1", "The exponent.") ","
        HEARTH_OPTION("broken", "number", "0", "The step that fails.") "]},"
        "{\"kind\": \"inferer\", \"name\": \"Whole\", \"help\": \"The whole image.\"}]";
    call->give(call, list, strlen(list));
    return HEARTH_OK;
}

static int32_t make(const hearth_setup *setup, const char *name, void **component) {
    part *mine = calloc(1, sizeof(part));
    *component = mine;
    mine->kind = name[0];
    if (mine->kind != 'W') setup->number(setup, "broken", &mine->broken);
    if (mine->kind == 'P') setup->number(setup, "power", &mine->power);
    return HEARTH_OK;
}

static int32_t entropy(part *mine, const hearth_work *work) {
    const hearth_array *pred = &work->inputs[0], *label = &work->inputs[1];
    size_t items = pred->shape[0], classes = pred->shape[1], volume, item, voxel, class;
    double loss = 0;
    char text[64];
    float *gradient;
    hearth_array result = *pred;
    int32_t code;
    volume = pred->shape[2] * pred->shape[3] * pred->shape[4];
    gradient = malloc(items * classes * volume * sizeof(float));
    for (item = 0; item < items; item++) {
        for (voxel = 0; voxel < volume; voxel++) {
            const float *of = pred->values + item * classes * volume + voxel;
            size_t truth = (size_t)label->values[item * volume + voxel];
            double most = of[0], sum = 0, count = (double)(items * volume);
            for (class = 1; class < classes; class++) most = fmax(most, of[class * volume]);
            for (class = 0; class < classes; class++) sum += exp(of[class * volume] - most);
            loss -= (of[truth * volume] - most - log(sum)) / count;
            for (class = 0; class < classes; class++) {
                double chance = exp(of[class * volume] - most) / sum - (class == truth);
                gradient[(item * classes + class) * volume + voxel] = (float)(chance / count);
            }
        }
    }
    mine->calls++;
    if (mine->broken > 0 && (double)mine->calls >= mine->broken) gradient[0] = NAN;
    result.values = gradient;
    snprintf(text, sizeof(text), "{\"loss\": %.17g}", loss);
    code = work->give(work, &result) | work->say(work, text);
    free(gradient);
    return code;
}

static double number(const char *text, const char *key) {
    const char *place = strstr(text, key);
    return place ? strtod(place + strlen(key), NULL) : NAN;
}

static int32_t rate(const part *mine, const hearth_work *work) {
    double step = number(work->text, "\"step\":"), steps = number(work->text, "\"steps\":");
    double base = number(work->text, "\"base\":");
    char text[64];
    if (mine->broken > 0 && step == mine->broken) return work->say(work, "{\"rate\": -1}");
    snprintf(text, sizeof(text), "{\"rate\": %.17g}", base * pow(1 - step / steps, mine->power));
    return work->say(work, text);
}

static int32_t carry_out(void *component, const char *operation, const hearth_work *work) {
    part *mine = component;
    hearth_array output = {sizeof(hearth_array), 0, NULL, NULL, {0}};
    if (!strcmp(operation, "loss")) return entropy(mine, work);
    if (!strcmp(operation, "rate")) return rate(mine, work);
    if (work->network(work, &work->inputs[0], &output)) return HEARTH_FAILED;
    return work->give(work, &output);
}

const hearth_plugin *hearth_plugin_main(const hearth_call *call) {
    static const hearth_plugin plugin = {sizeof(hearth_plugin), NULL, NULL, NULL, NULL, NULL, NULL,
                                         components, make, NULL, free, carry_out};
    (void)call;
    return &plugin;
}
