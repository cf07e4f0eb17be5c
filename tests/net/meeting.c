/* SPDX-License-Identifier: Apache-2.0
 * What a launcher across hosts does: makes the id of a job, prints it, serves the meeting until its input ends. A number
 * on a line of the input: the process of that rank has ended. One thread. */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    char text[FERRY_UNIQUEID_TEXT], line[32];
    ferry_uniqueid_t id;
    ferry_meeting_t *meeting;
    if (ferry_meeting_open(&id, &meeting) != FERRY_OK)
        return 1;
    ferry_uniqueid_to_text(&id, text);
    puts(text);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        ferry_meeting_lost(meeting, atoi(line));
    return ferry_meeting_close(meeting) == FERRY_OK ? 0 : 1;
}
