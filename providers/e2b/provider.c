/* The provider: the E2B service on what all cloud services have in common. */
#include "e2b.h"
#include "../remote/remote.h"

static int open_sandbox(uv_loop_t* loop, const struct sbx_options* options,
                        struct sbx_sandbox** out, struct sbx_error* error) {
  return sbx_remote_open(loop, &sbx_service_e2b, &sbx_provider_e2b, options,
                         out, error);
}

const struct sbx_provider sbx_provider_e2b = {
    .name = "e2b", .open = open_sandbox, SBX_REMOTE_TABLE};
