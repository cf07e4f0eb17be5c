/* SPDX-License-Identifier: Apache-2.0
 * Names of status codes, and the version of the library.
 * Pure functions; any thread. */
#include <ferry/ferry.h>

const char *ferry_status_string(int status)
{
    switch (status) {
    case FERRY_OK:
        return "FERRY_OK";
    case FERRY_AGAIN:
        return "FERRY_AGAIN";
    case FERRY_DONE:
        return "FERRY_DONE";
    case FERRY_ERR_ARG:
        return "FERRY_ERR_ARG";
    case FERRY_ERR_UNSUPPORTED:
        return "FERRY_ERR_UNSUPPORTED";
    case FERRY_ERR_STATE:
        return "FERRY_ERR_STATE";
    case FERRY_ERR_CONFIG:
        return "FERRY_ERR_CONFIG";
    case FERRY_ERR_NOT_FOUND:
        return "FERRY_ERR_NOT_FOUND";
    case FERRY_ERR_NOMEM:
        return "FERRY_ERR_NOMEM";
    case FERRY_ERR_LIMIT:
        return "FERRY_ERR_LIMIT";
    case FERRY_ERR_SYSTEM:
        return "FERRY_ERR_SYSTEM";
    case FERRY_ERR_PEER:
        return "FERRY_ERR_PEER";
    case FERRY_ERR_UNREACHABLE:
        return "FERRY_ERR_UNREACHABLE";
    case FERRY_ERR_ACCESS:
        return "FERRY_ERR_ACCESS";
    case FERRY_ERR_TRANSPORT:
        return "FERRY_ERR_TRANSPORT";
    case FERRY_ERR_DEVICE:
        return "FERRY_ERR_DEVICE";
    case FERRY_ERR_ABI:
        return "FERRY_ERR_ABI";
    case FERRY_ERR_TIMEOUT:
        return "FERRY_ERR_TIMEOUT";
    case FERRY_ERR_ABORTED:
        return "FERRY_ERR_ABORTED";
    case FERRY_ERR_MISMATCH:
        return "FERRY_ERR_MISMATCH";
    case FERRY_ERR_BOOTSTRAP:
        return "FERRY_ERR_BOOTSTRAP";
    default:
        return "unknown status";
    }
}

const char *ferry_version(void)
{
    return FERRY_VERSION_STRING;
}
