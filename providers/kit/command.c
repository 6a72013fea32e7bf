/* Command lines of the kit: shell programs and their arguments. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "../../native/parse/base64.h"
#include "../../native/utf8.h"

static const char system_folders[] =
    "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/usr/local/sbin";

int sbx__kit_nonce(char out[SBX__NONCE_SIZE]) {
  unsigned char bytes[16];
  size_t at = 0;
  while (at < sizeof(bytes)) {
    ssize_t n = getrandom(bytes + at, sizeof(bytes) - at, 0);
    if (n < 0 && errno != EINTR) return SBX_E_INTERNAL;
    if (n > 0) at += (size_t)n;
  }
  for (at = 0; at < sizeof(bytes); at++)
    snprintf(out + 2 * at, 3, "%02x", bytes[at]);
  return 0;
}

static char* reserve(struct sbx__command* c, size_t more) {
  if (c->failed) return NULL;
  if (more > c->size - c->len) {
    size_t size = c->size * 2 + more + 1024;
    char* text = realloc(c->text, size);
    if (!text) {
      c->failed = true;
      return NULL;
    }
    c->text = text;
    c->size = size;
  }
  return c->text + c->len;
}

static void put(struct sbx__command* c, const char* text, size_t len) {
  char* out = reserve(c, len);
  if (!out) return;
  memcpy(out, text, len);
  c->len += len;
}

static void start(struct sbx__command* c) {
  if (c->argc == c->starts_size) {
    size_t size = c->starts_size * 2 + 32;
    size_t* starts = realloc(c->starts, size * sizeof(*starts));
    if (!starts) {
      c->failed = true;
      return;
    }
    c->starts = starts;
    c->starts_size = size;
  }
  c->starts[c->argc++] = c->len;
}

static void end(struct sbx__command* c) {
  put(c, "", 1);
  if (!c->failed && c->len - c->starts[c->argc - 1] > SBX__ARG_MAX)
    c->too_long = true;
}

void sbx__command_bytes(struct sbx__command* c, const char* text, size_t len) {
  start(c);
  put(c, text, len);
  end(c);
}

void sbx__command_add(struct sbx__command* c, const char* text) {
  sbx__command_bytes(c, text, strlen(text));
}

void sbx__command_number(struct sbx__command* c, uint64_t number) {
  char text[24];
  snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
  sbx__command_add(c, text);
}

/* Services take arguments as JSON strings, which hold no other bytes. */
static void put_escaped(struct sbx__command* c, const char* text, size_t len) {
  char one[6];
  for (size_t i = 0; i < len; i++) {
    snprintf(one, sizeof(one), "\\0%03o", (unsigned char)text[i]);
    put(c, one, 5);
  }
}

void sbx__command_arg(struct sbx__command* c, const char* text, size_t len) {
  bool plain = sbx_utf8_valid(text, len) && !memchr(text, 0, len);
  start(c);
  put(c, plain ? "=" : "%", 1);
  if (plain) put(c, text, len);
  else put_escaped(c, text, len);
  end(c);
}

void sbx__command_base64(struct sbx__command* c, const void* data,
                         size_t len) {
  size_t size = SBX_BASE64_ENCODED(len);
  start(c);
  char* out = reserve(c, size);
  if (out) c->len += sbx_base64_encode(data, len, 0, out);
  end(c);
}

/* Without comment lines and indentation: every call carries it. */
static void put_script(struct sbx__command* c, enum sbx__script script) {
  size_t len;
  const char* at = sbx__kit_script(script, &len);
  const char* stop = at + len;
  while (at < stop) {
    const char* line_end = memchr(at, '\n', (size_t)(stop - at));
    const char* next = line_end ? line_end + 1 : stop;
    while (at < next && *at == ' ') at++;
    if (at < next && *at != '#' && *at != '\n')
      put(c, at, (size_t)(next - at));
    at = next;
  }
}

void sbx__command_scripts(struct sbx__command* c,
                          const enum sbx__script* scripts) {
  start(c);
  for (; *scripts != SBX__SH_END; scripts++) put_script(c, *scripts);
  end(c);
}

const char* sbx__kit_tools(const struct sbx_kit_place* place) {
  return place->tools ? place->tools : system_folders;
}

const char* sbx__kit_folder(const struct sbx_kit_place* place) {
  return place->folder ? place->folder : "/tmp/.sbx";
}

void sbx__command_shell(struct sbx__command* c,
                        const struct sbx_kit_place* place, const char* nonce,
                        const enum sbx__script* scripts) {
  static const char head[] = "printf 'SBX%s{' \"$1\"\n{\n";
  static const char tail[] = "} | PATH=$2 base64\nprintf '}%s' \"$1\"\n";
  bool base64 = !place->binary_output;
  sbx__command_add(c, "/bin/sh");
  sbx__command_add(c, "-c");
  start(c);
  if (base64) put(c, head, sizeof(head) - 1);
  for (; *scripts != SBX__SH_END; scripts++) put_script(c, *scripts);
  if (base64) put(c, tail, sizeof(tail) - 1);
  end(c);
  sbx__command_add(c, "sbx-kit");
  sbx__command_add(c, nonce);
  sbx__command_add(c, sbx__kit_tools(place));
  sbx__command_add(c, sbx__kit_folder(place));
  sbx__command_add(c, place->root);
}

int sbx__command_finish(struct sbx__command* c) {
  if (!c->failed) c->argv = calloc(c->argc + 1, sizeof(*c->argv));
  if (c->failed || !c->argv) return SBX_E_INTERNAL;
  if (c->too_long) return SBX_E_INVALID_INPUT;
  for (size_t i = 0; i < c->argc; i++) c->argv[i] = c->text + c->starts[i];
  return 0;
}

void sbx__command_free(struct sbx__command* c) {
  free(c->text);
  free(c->starts);
  free(c->argv);
  memset(c, 0, sizeof(*c));
}
