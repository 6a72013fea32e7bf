/* Parses the entries of an allow list and compares hosts with them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "allow_list.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "address.h"

enum kind { NAME, BELOW, ANY, ADDRESS };

struct entry {
  enum kind kind;
  unsigned port; /* 0: 80 and 443 */
  struct sockaddr_storage address;
  char host[SBX_HOST_MAX]; /* of BELOW: with the dot in front */
};

struct sbx_allow_list {
  struct entry* entries;
  size_t len, size;
};

struct preset {
  const char* name;
  const char* const* hosts;
};

static const char* const npm[] = {"registry.npmjs.org", "registry.yarnpkg.com",
                                  "nodejs.org", NULL};
static const char* const pip[] = {"pypi.org", "files.pythonhosted.org", NULL};
static const char* const git[] = {"github.com", "codeload.github.com",
                                  "*.githubusercontent.com", "gitlab.com",
                                  "bitbucket.org", NULL};
static const char* const apt[] = {"deb.debian.org", "security.debian.org",
                                  "archive.ubuntu.com", "*.archive.ubuntu.com",
                                  "security.ubuntu.com", "ports.ubuntu.com",
                                  NULL};
static const struct preset presets[] = {
    {"npm", npm}, {"pip", pip}, {"git", git}, {"apt", apt}};

/* ---- hosts as text ---- */

static bool good_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

/* Labels of 1 to 63 characters. */
static bool good_name(const char* name) {
  size_t label = 0;

  for (; *name != '\0'; name++) {
    if (*name == '.' ? label == 0 : !good_char(*name)) return false;
    label = *name == '.' ? 0 : label + 1;
    if (label > 63) return false;
  }
  return label > 0;
}

static bool good_address(const char* host) {
  struct sockaddr_storage a;

  return host[0] != '[' && strchr(host, ':') != NULL &&
         sbx_address_parse(host, &a);
}

bool sbx_host_clean(const char* text, size_t len, char out[SBX_HOST_MAX]) {
  if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
    text++;
    len -= 2;
    if (memchr(text, ':', len) == NULL) return false;
  } else if (len > 1 && text[len - 1] == '.') {
    len--;
  }
  if (len == 0 || len >= SBX_HOST_MAX) return false;
  for (size_t i = 0; i < len; i++) {
    char c = text[i];

    if (c == '\0') return false;
    out[i] = c >= 'A' && c <= 'Z' ? (char) (c + 32) : c;
  }
  out[len] = '\0';
  return good_name(out) || good_address(out);
}

static bool parse_port(const char* text, size_t len, unsigned* out) {
  unsigned port = 0;

  if (len == 0 || len > 5) return false;
  for (size_t i = 0; i < len; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    port = port * 10 + (unsigned) (text[i] - '0');
  }
  *out = port;
  return port > 0 && port <= UINT16_MAX;
}

bool sbx_host_split(const char* text, size_t len, unsigned fallback,
                    char host[SBX_HOST_MAX], unsigned* port) {
  const char* colon = memrchr(text, ':', len);
  const char* bracket = memrchr(text, ']', len);

  *port = fallback;
  if (colon == NULL || (bracket != NULL && colon < bracket))
    return fallback != 0 && sbx_host_clean(text, len, host);
  /* A bare IPv6 address has no room for a port. */
  if (bracket == NULL && memchr(text, ':', (size_t) (colon - text)) != NULL)
    return false;
  if (!parse_port(colon + 1, len - (size_t) (colon + 1 - text), port))
    return false;
  return sbx_host_clean(text, (size_t) (colon - text), host);
}

/* ---- entries ---- */

int sbx_allow_list_new(struct sbx_allow_list** out) {
  *out = calloc(1, sizeof(**out));
  return *out == NULL ? UV_ENOMEM : 0;
}

void sbx_allow_list_free(struct sbx_allow_list* list) {
  if (list == NULL) return;
  free(list->entries);
  free(list);
}

static int append(struct sbx_allow_list* list, const struct entry* e) {
  if (list->len == list->size) {
    size_t size = list->size == 0 ? 8 : list->size * 2;
    struct entry* more = realloc(list->entries, size * sizeof(*more));

    if (more == NULL) return -1;
    list->entries = more;
    list->size = size;
  }
  list->entries[list->len++] = *e;
  return 0;
}

static bool parse_host(const char* text, size_t len, struct entry* e) {
  char host[SBX_HOST_MAX];

  if (len == 1 && text[0] == '*') {
    e->kind = ANY;
    return true;
  }
  if (len > 2 && text[0] == '*' && text[1] == '.') {
    /* No wildcard of addresses: "*.1" would be one of names that look so. */
    if (!sbx_host_clean(text + 2, len - 2, host) || strlen(host) > 250 ||
        strchr(host, ':') != NULL)
      return false;
    e->kind = BELOW;
    e->host[0] = '.';
    memcpy(e->host + 1, host, strlen(host) + 1);
    return true;
  }
  if (!sbx_host_clean(text, len, e->host)) return false;
  e->kind = sbx_address_parse(e->host, &e->address) ? ADDRESS : NAME;
  return true;
}

static bool parse_entry(const char* text, struct entry* e) {
  size_t len = strlen(text);
  const char* colon = strrchr(text, ':');
  const char* bracket = strrchr(text, ']');

  memset(e, 0, sizeof(*e));
  if (colon == NULL || (bracket != NULL && colon < bracket) ||
      (bracket == NULL && strchr(text, ':') != colon))
    return parse_host(text, len, e);
  if (!parse_port(colon + 1, strlen(colon + 1), &e->port)) return false;
  return parse_host(text, (size_t) (colon - text), e);
}

static int refuse(const char* option, const char* entry,
                  struct sbx_error* error) {
  const char* why = "write \"example.com\", \"*.example.com\", "
                    "\"example.com:8443\", an IP address, or one of \"npm\", "
                    "\"pip\", \"git\" and \"apt\"";

  if (strstr(entry, "://") != NULL) why = "leave out the scheme and the path";
  else if (strchr(entry, '/') != NULL) why = "leave out the path";
  return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "network",
                       "%s holds \"%.200s\", which is no host: %s.", option,
                       entry, why);
}

const char* const* sbx_allow_list_preset(const char* name) {
  for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
    if (strcmp(presets[i].name, name) == 0) return presets[i].hosts;
  return NULL;
}

int sbx_allow_list_add(struct sbx_allow_list* list, const char* option,
                       const char* text, struct sbx_error* error) {
  const char* const* hosts = sbx_allow_list_preset(text);
  struct entry e;

  if (hosts != NULL) {
    int err = 0;

    for (; err == 0 && *hosts != NULL; hosts++)
      err = sbx_allow_list_add(list, option, *hosts, error);
    return err;
  }
  if (!parse_entry(text, &e)) return refuse(option, text, error);
  if (list->len >= SBX_ALLOW_MAX)
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "network",
                         "%s holds more than %d hosts.", option,
                         SBX_ALLOW_MAX);
  if (append(list, &e) == 0) return 0;
  return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "network",
                       "Out of memory.");
}

/* ---- comparing ---- */

static bool port_matches(const struct entry* e, unsigned port) {
  return e->port == 0 ? port == 80 || port == 443 : e->port == port;
}

static bool host_matches(const struct entry* e, const char* host) {
  size_t len = strlen(host), tail = strlen(e->host);

  switch (e->kind) {
    case ANY: return true;
    case NAME: return strcmp(e->host, host) == 0;
    case BELOW:
      return len > tail && strcmp(host + len - tail, e->host) == 0;
    default: return false;
  }
}

bool sbx_allow_list_host(const struct sbx_allow_list* list, const char* host,
                         unsigned port) {
  struct sockaddr_storage a;
  bool address = sbx_address_parse(host, &a);

  if (address &&
      sbx_allow_list_address(list, (const struct sockaddr*) &a, port))
    return true;
  for (size_t i = 0; i < list->len; i++) {
    const struct entry* e = &list->entries[i];

    if (address && e->kind != ANY) continue;
    if (port_matches(e, port) && host_matches(e, host)) return true;
  }
  return false;
}

bool sbx_allow_list_address(const struct sbx_allow_list* list,
                            const struct sockaddr* address, unsigned port) {
  for (size_t i = 0; i < list->len; i++) {
    const struct entry* e = &list->entries[i];

    if (e->kind == ADDRESS && port_matches(e, port) &&
        sbx_address_equal((const struct sockaddr*) &e->address, address))
      return true;
  }
  return false;
}
