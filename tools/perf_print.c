/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: results as a table, comma-separated values, or JSON. Called by PE 0's main thread. */
#include "perf.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static const char *unit_name(enum perf_unit unit)
{
    static const char *const names[] = {"ns", "us", "Mop/s", "GB/s"};
    return names[unit];
}

static int flushed(void)
{
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : -1;
}

int perf_print_begin(struct perf_printer *printer, enum perf_format format, const char *transport, int pes)
{
    *printer = (struct perf_printer){.format = format, .pes = pes};
    snprintf(printer->transport, sizeof printer->transport, "%s", transport);
    if (format == PERF_JSON) {
        printer->array = json_array();
        return printer->array ? 0 : -1;
    }
    if (format == PERF_CSV) {
        puts("test,bytes,transport,pes,channels,iterations,min,median,p99,unit");
        return flushed();
    }
    printf("# ferry-perf %s, transport %s, %d PEs\n", ferry_version(), transport, pes);
    printf("%-17s %10s %9s %11s %10s %10s %10s  %s\n", "# test", "bytes", "channels", "iterations", "min", "median",
           "p99", "unit");
    return flushed();
}

static int add_to_array(struct perf_printer *printer, const struct perf_result *result)
{
    json_t *object =
        json_pack("{ss sI ss si si sI sf sf sf ss}", "test", result->test->name, "bytes", (json_int_t)result->bytes,
                  "transport", printer->transport, "pes", result->pes, "channels", result->channels, "iterations",
                  (json_int_t)result->iterations, "min", result->min, "median", result->median, "p99", result->p99,
                  "unit", unit_name(result->test->unit));
    return object ? json_array_append_new(printer->array, object) : -1;
}

/* Decimals that leave a small figure of a slow transport as exact as a large one. */
static int decimals(const struct perf_result *result, int usual)
{
    return result->median < 1 ? usual + 3 : usual;
}

int perf_print_result(struct perf_printer *printer, const struct perf_result *result)
{
    const char *unit = unit_name(result->test->unit);
    int digits = decimals(result, printer->format == PERF_CSV ? 3 : 2);
    if (printer->format == PERF_JSON)
        return add_to_array(printer, result);
    if (printer->format == PERF_CSV)
        printf("%s,%zu,%s,%d,%d,%" PRIu64 ",%.*f,%.*f,%.*f,%s\n", result->test->name, result->bytes, printer->transport,
               result->pes, result->channels, result->iterations, digits, result->min, digits, result->median, digits,
               result->p99, unit);
    else
        printf("%-17s %10zu %9d %11" PRIu64 " %10.*f %10.*f %10.*f  %s\n", result->test->name, result->bytes,
               result->channels, result->iterations, digits, result->min, digits, result->median, digits, result->p99,
               unit);
    return flushed();
}

int perf_print_end(struct perf_printer *printer)
{
    if (printer->format != PERF_JSON)
        return flushed();
    int rc = json_dumpf(printer->array, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(printer->array);
    printer->array = NULL;
    putchar('\n');
    return rc == 0 ? flushed() : -1;
}
