/* The digest of the sources that this library was compiled from. */
#include "export.h"

EXPORT const char *headrace_source_digest(void);

EXPORT const char *headrace_source_digest(void) { return HEADRACE_SOURCE_DIGEST; }
