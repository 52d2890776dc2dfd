/* Imitates roctx: writes what it is told to the file that STUB_ROCTX names. */
#include <stdio.h>
#include <stdlib.h>

static int depth;

static void say(const char *what, const char *name)
{
    FILE *file = fopen(getenv("STUB_ROCTX"), "a");
    if (file) {
        fprintf(file, "%s%s\n", what, name);
        fclose(file);
    }
}

int roctxRangePushA(const char *message)
{
    say("+ ", message);
    return depth++;
}

int roctxRangePop(void)
{
    say("-", "");
    return --depth;
}

unsigned long long roctxRangeStartA(const char *message)
{
    say("start ", message);
    return 77;
}

void roctxRangeStop(unsigned long long id)
{
    say("stop", id == 77 ? "" : " of another range");
}
