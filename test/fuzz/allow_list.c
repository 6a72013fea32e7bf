/* The first line is an entry, the rest a host: no entry but "*" allows a host
 * that does not end with it, and a clean host cleans to itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/network/allow_list.h"
#include "native/network/host_check.h"

static void check_clean(const char* host) {
  char again[SBX_HOST_MAX];

  for (const char* c = host; *c != '\0'; c++)
    if ((unsigned char) *c <= 0x20 || (unsigned char) *c >= 0x7f) abort();
  if (!sbx_host_clean(host, strlen(host), again)) abort();
  if (strcmp(host, again) != 0) abort();
}

static void check_entry(const char* entry, const char* host, unsigned port) {
  struct sbx_allow_list* list;
  struct sbx_error error;

  if (sbx_allow_list_new(&list) != 0) return;
  if (sbx_allow_list_add(list, "network", entry, &error) == 0 &&
      sbx_allow_list_host(list, host, port) && strchr(host, ':') == NULL &&
      entry[0] == '*' && entry[1] == '.') {
    size_t dot = strcspn(host, ".");
    if (host[dot] != '.') abort(); /* a wildcard needs a label in front */
  }
  sbx_allow_list_free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* bytes = (const char*) data;
  const char* line = size > 0 ? memchr(bytes, '\n', size) : NULL;
  char entry[300], host[SBX_HOST_MAX];
  size_t len = line != NULL ? (size_t) (line - bytes) : size;
  unsigned port;

  sbx_host_check(bytes, size, 3000);
  if (len >= sizeof(entry)) return 0;
  memcpy(entry, bytes, len);
  entry[len] = '\0';
  if (line == NULL ||
      !sbx_host_split(line + 1, size - len - 1, 443, host, &port)) {
    check_entry(entry, "a.example", 443);
    return 0;
  }
  check_clean(host);
  check_entry(entry, host, port);
  return 0;
}
