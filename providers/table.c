/* The providers by name. */
#include <string.h>

#include "provider.h"

static const struct sbx_provider* const providers[] = {
    &sbx_provider_local,
    &sbx_provider_local_store,
    &sbx_provider_e2b,
};

const struct sbx_provider* sbx_provider_find(const char* name) {
  for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
    if (strcmp(providers[i]->name, name) == 0) return providers[i];
  return NULL;
}
