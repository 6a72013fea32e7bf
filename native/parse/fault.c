/* What the body of a service's refusal says. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fault.h"

#include <stdio.h>
#include <string.h>

#include "../text.h"

enum { BODY_MAX = 64 * 1024 };

static const struct sbx_json_source nobody = {"the service", "fault"};

/* Copies one line, cut between code points. */
static void copy_line(char* out, size_t size, const char* text) {
  size_t len = strcspn(text, "\r\n");

  if (len >= size) {
    len = size - 1;
    while (len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80) len--;
  }
  memcpy(out, text, len);
  out[len] = '\0';
  for (char* p = out; *p != '\0'; p++)
    if ((unsigned char) *p < 0x20 || *p == 0x7f) *p = '?';
}

static void read_string(struct sbx_json_node n, const char* name, char* out,
                        size_t size) {
  struct sbx_json_node at = sbx_json_get(n, name);
  const char* text;

  if (out[0] != '\0' || sbx_json_string(at, NULL, &text, NULL) != 0) return;
  copy_line(out, size, text);
}

static void read_number(struct sbx_json_node n, const char* name,
                        struct sbx_fault* out) {
  struct sbx_json_node at = sbx_json_get(n, name);

  if (out->number != 0 || sbx_json_is_string(at)) return;
  sbx_json_integer(at, NULL, 0, 999999, &out->number, NULL);
}

/* Nest answers several complaints as a list: the first. */
static void read_message(struct sbx_json_node n, struct sbx_fault* out) {
  struct sbx_json_node at = sbx_json_get(n, "message");
  struct sbx_json_node first = sbx_json_first(at);

  read_string(n, "message", out->message, sizeof(out->message));
  if (first.item != NULL && sbx_json_key(first) == NULL &&
      sbx_json_is_string(first) && out->message[0] == '\0') {
    const char* text;

    if (sbx_json_string(first, NULL, &text, NULL) == 0)
      copy_line(out->message, sizeof(out->message), text);
  }
}

static void read_object(struct sbx_json_node n, struct sbx_fault* out) {
  read_number(n, "code", out);
  read_number(n, "statusCode", out);
  read_string(n, "error_code", out->code, sizeof(out->code));
  read_string(n, "code", out->code, sizeof(out->code));
  read_message(n, out);
}

bool sbx_fault_of(struct sbx_json_node n, struct sbx_fault* out) {
  struct sbx_json_node error = sbx_json_get(n, "error");

  memset(out, 0, sizeof(*out));
  read_object(n, out);
  read_object(error, out);
  read_string(n, "error", out->message, sizeof(out->message));
  return out->number != 0 || out->code[0] != '\0' || out->message[0] != '\0';
}

bool sbx_fault_read(const char* body, size_t len, struct sbx_fault* out) {
  char quote[SBX_QUOTE_MAX];
  struct sbx_json* json;
  bool found;

  memset(out, 0, sizeof(*out));
  if (len > 0 && len <= BODY_MAX &&
      sbx_json_parse(body, len, &nobody, &json, NULL) == 0) {
    found = sbx_fault_of(sbx_json_root(json), out);
    sbx_json_free(json);
    return found;
  }
  /* What begins like JSON may hold tokens. */
  sbx_text_quote(body, len, quote);
  if (quote[0] == '<')
    snprintf(out->message, sizeof(out->message), "an HTML page");
  else if (quote[0] != '\0' && strchr("{[\"", quote[0]) == NULL)
    snprintf(out->message, sizeof(out->message), "%s", quote);
  return false;
}
